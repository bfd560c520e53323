"""Where background work says what it cannot raise."""

import logging

log = logging.getLogger("interlock_client")
