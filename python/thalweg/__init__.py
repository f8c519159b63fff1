"""Inference for DeepSeek-V4.1-Flash.

    import thalweg

    llm = thalweg.LLM()  # the small checkpoint that comes with the package
    for output in llm.generate(["What does courage mean?"], thalweg.SamplingParams(temperature=0)):
        print(output.outputs[0].text)
"""

from . import _core
from .errors import (
    Error,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    IoError,
    NotFoundError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnsupportedError,
)
from .llm import LLM
from .outputs import CompletionOutput, Logprob, RequestMetrics, RequestOutput
from .sampling_params import LogitsProcessor, RequestOutputKind, SamplingParams

__version__ = _core.version()

__all__ = [
    "LLM",
    "SamplingParams",
    "RequestOutputKind",
    "LogitsProcessor",
    "RequestOutput",
    "CompletionOutput",
    "RequestMetrics",
    "Logprob",
    "Error",
    "InvalidArgumentError",
    "NotFoundError",
    "FailedPreconditionError",
    "OutOfRangeError",
    "UnsupportedError",
    "ResourceExhaustedError",
    "IoError",
    "InternalError",
]
