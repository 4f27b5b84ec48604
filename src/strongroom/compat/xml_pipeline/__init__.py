"""The names of xml_pipeline that concern context, over Strongroom."""
