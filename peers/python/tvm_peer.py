"""Apache TVM, for its auto_scheduler: no release that is offered as a wheel still has it."""
from driver import Absent


def open_model(job):
    raise Absent("the wheels of Apache TVM (0.25 and later) have no auto_scheduler")
