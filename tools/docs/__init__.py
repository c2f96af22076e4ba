"""The documentation: the element reference made from the code, and the site built with every link checked."""
