"""`sightline mcp`: tools for assistants, by the Model Context Protocol."""
