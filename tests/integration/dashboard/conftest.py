"""The dashboard in a real browser."""

from tests.integration.dashboard.browser import browser, page

__all__ = ["browser", "page"]  # fixtures
