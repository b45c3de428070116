// The memory that batch sizes alone require, before anything is planned or allocated: in doubles, since the sizes asked
// for may fit no integer. The exact need of a step, to the byte, is the plan's.
#pragma once

#include <cstdint>
#include <string>

#include "core/error.hpp"
#include "core/model_table.hpp"

namespace troupe::plan {

struct batch_request {          ///< of a process with all ranks of a job
  uint64_t rows = 1;            ///< samples of a micro-batch
  uint64_t columns = 1;         ///< tokens of a sample
  uint64_t accumulation = 1;    ///< micro-batches of a step
  uint64_t prefetched = 0;      ///< batches that wait ready
  uint32_t ranks = 1;           ///< of the data axis: those of a pipeline share the activations of a micro-batch
  bool recompute = false;       ///< activations of one unit at a time, beside the inputs of all
  bool light = false;           ///< segments keep the lesser part, where they have one
  bool inputs_on_disk = false;  ///< those inputs, so not in memory
};

struct batch_need {  ///< bytes
  double tokens = 0, activations = 0, plans = 0;
  [[nodiscard]] double total() const { return tokens + activations + plans; }
};

/// `one_row`: the model's table for a micro-batch of one sample.
batch_need need_of(const core::model_table& one_row, const batch_request& request);

/// Whether that much memory holds the batches, 0 being unknown; if not, the key to change, and why, in `text`. `memory`
/// names the memory: "the machine's memory".
struct batch_refusal {
  std::string key, text;  ///< `key` is empty where it fits
};
batch_refusal refusal_of(const core::model_table& one_row, const batch_request& request, uint64_t memory_bytes,
                         const std::string& memory);

}  // namespace troupe::plan
