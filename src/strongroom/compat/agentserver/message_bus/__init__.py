"""`xml_pipeline.message_bus` under its earlier name."""
