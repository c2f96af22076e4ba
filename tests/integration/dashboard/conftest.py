"""The dashboard in a real browser."""

from tests.integration.dashboard.browser import browser, page
from tests.integration.server.api.conftest import quick_hashes

__all__ = ["browser", "page", "quick_hashes"]  # fixtures
