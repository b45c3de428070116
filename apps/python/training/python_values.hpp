// Converts between Python's values and Troupe's: the keys of a configuration, and tensors as memory that Python shares.
// Its functions require the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <vector>

#include "actors/session/state_access.hpp"
#include "config/job_builder.hpp"

namespace troupe::apps {

/// Returns the keys of a dictionary, such as {"steps": 10, "optimizer.params.lr": 1e-3}, as settings of a job. A value
/// is None, a truth value, a number, a text, a path, a list, a tuple or a dictionary. Throws python_error (bad_input)
/// for other values.
config::job_builder builder_of(const nanobind::dict& keys);

/// Returns (name of the type, shape, memory) of fp32 values, which move into memory that supports DLPack and the buffer
/// protocol, without a copy.
nanobind::tuple tensor_of(std::vector<float>&& values, const std::vector<int64_t>& shape);

/// Returns (name of the type, shape, memory) of a rank's states, which the memory only shows and refuses to write. The
/// memory exists as long as Python holds it.
nanobind::tuple view_of(const actors::state_view& seen, const std::vector<int64_t>& shape);

/// Contiguous values in the processor's memory that Python holds: of NumPy, torch, a memoryview and the like.
template <class T>
using held_values = nanobind::ndarray<const T, nanobind::c_contig, nanobind::device::cpu>;

/// Returns a view of the values that `given` holds. Throws python_error (bad_input) if they have another type, are not
/// contiguous or are not in the processor's memory; `where` begins the message.
held_values<float> floats_in(const char* where, const nanobind::object& given);

/// Contiguous rows of numbers that Python holds.
using held_rows = nanobind::ndarray<const int64_t, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

/// Returns a view of tokens, one row for each sample. Errors as floats_in(), also for another number of dimensions.
held_rows rows_of_tokens_in(const char* where, const nanobind::object& given);

/// Returns a copy of truth values, or of 8-bit numbers that are 0 or not. Errors as floats_in().
std::vector<uint8_t> flags_in(const char* where, const nanobind::object& given);

}  // namespace troupe::apps
