"""What several unit tests need."""

import jaxtyping
import pytest


@pytest.fixture
def as_users_call():
    """Calls without checked annotations, so that wrong types reach the checks that users meet."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
