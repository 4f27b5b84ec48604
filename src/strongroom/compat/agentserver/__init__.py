"""xml_pipeline under its earlier name, agentserver: the same names, the same objects."""
