"""A table of measurements, checked: read it, audit it, standardise it.

Everything that enters the package becomes a `Dataset`: named float64 columns, and a mask that
says which entries were set by an intervention.
"""

from svidag.data.audit import AuditError, DataWarning, Finding
from svidag.data.dataset import Dataset
from svidag.data.interventions import row_groups
from svidag.data.kinds import Kind
from svidag.data.scaling import Scaling

__all__ = ["AuditError", "DataWarning", "Dataset", "Finding", "Kind", "Scaling", "row_groups"]
