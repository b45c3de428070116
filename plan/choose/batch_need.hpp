// Computes the memory that batch sizes alone require, before anything is planned or allocated. Results are doubles,
// since the requested sizes may fit no integer. The exact need of a step, to the byte, is in its plan.
#pragma once

#include <cstdint>
#include <string>

#include "core/model_table.hpp"

namespace troupe::plan {

/// The sizes of batches in a process that has all ranks of a job.
struct batch_request {
  uint64_t rows = 1;          ///< number of samples of a micro-batch
  uint64_t columns = 1;       ///< number of tokens of a sample
  uint64_t accumulation = 1;  ///< number of micro-batches of a step
  uint64_t prefetched = 0;    ///< number of batches that are prepared ahead
  uint32_t ranks = 1;      ///< ranks of the data axis; the ranks of a pipeline share the activations of a micro-batch
  bool recompute = false;  ///< true: memory holds the activations of one unit at a time, and the inputs of all units
  bool light = false;      ///< true: segments keep fewer tensors for backward, if they have a smaller set
  bool inputs_on_disk = false;  ///< true: the inputs of recomputed units are on the disk, not in memory
};

/// Bytes of memory that the batches of a process require, by purpose.
struct batch_need {
  double tokens = 0, activations = 0, plans = 0;
  [[nodiscard]] double total() const { return tokens + activations + plans; }
};

/// Returns the memory that batches require. `one_row`: the model's table for a micro-batch of one sample.
batch_need need_of(const core::model_table& one_row, const batch_request& request);

/// The result of refusal_of(), which compares the need of batches with the `memory_bytes` of the memory that the
/// message calls `memory`. 0 `memory_bytes` means unknown: the batches then count as fitting.
struct batch_refusal {
  std::string key, text;  ///< configuration key to change, and message; an empty key: the batches fit
};
batch_refusal refusal_of(const core::model_table& one_row, const batch_request& request, uint64_t memory_bytes,
                         const std::string& memory);

}  // namespace troupe::plan
