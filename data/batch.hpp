// Makes the micro-batches of a rank: tokens, sample numbers and document starts. The functions depend only on the
// corpus and on the position in it: any thread may call them for any step, in any order, with equal results.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "core/token_order.hpp"
#include "data/left_out.hpp"

namespace troupe::data {

class corpus;

/// Growth of the global batch at the beginning of a run, as Megatron-LM's --rampup-batch-size has it: a step that
/// begins at sample s has first_rows samples, and added_rows more for each of the equal parts of `samples` that s has
/// passed, until the batch is whole. The parts are as many as the batch grows times.
struct batch_ramp {
  uint64_t first_rows = 0;  ///< global batch of the first step; 0: the batch does not grow
  uint64_t added_rows = 0;  ///< number of samples by which it grows at a time
  uint64_t samples = 0;     ///< sample from which on steps have the whole batch
  bool operator==(const batch_ramp&) const = default;
};

/// How a step's global batch is split. Samples that a run leaves out (`skipped`) are not counted: sample n is at
/// position skipped.position_of(n) of the order. Step `s` uses samples [s * B, (s + 1) * B), B = global_rows(). If a
/// run resumes from a run with another B, or has trained on a host program's batches, step first_step begins at
/// first_sample and later steps follow. While the batch grows (`ramp`), a step has fewer micro-batches, and its number
/// of samples follows from its first sample. Inside a step the micro-batch is the slowest index, then the rank, then
/// the row:
///   sample = begin of s + (micro * ranks + rank) * rows + row
/// Therefore the samples of a step depend on B and the ramp alone, not on how it is split.
struct batch_shape {
  uint64_t rows = 1;    ///< number of samples of one micro-batch on one rank
  uint32_t ranks = 1;   ///< number of data-parallel ranks that share a step's batch
  uint32_t micros = 1;  ///< number of micro-batches of one step with the whole batch (gradient accumulation)
  uint64_t first_step = 0, first_sample = 0;
  left_out skipped{};
  batch_ramp ramp{};
  /// Returns the number of samples of a step with the whole batch.
  [[nodiscard]] uint64_t global_rows() const { return rows * ranks * micros; }

  /// Returns the number of samples that the steps before `step` use, counting only samples that are not left out;
  /// `step` must not be before first_step.
  [[nodiscard]] uint64_t samples_before(uint64_t step) const;
  /// Returns the number of samples of a step that begins at sample `sample`.
  [[nodiscard]] uint64_t rows_from(uint64_t sample) const;
  /// Returns the number of samples of `step`, and of its micro-batches; `step` must not be before first_step.
  [[nodiscard]] uint64_t rows_of(uint64_t step) const { return rows_from(samples_before(step)); }
  [[nodiscard]] uint32_t micros_of(uint64_t step) const {
    return ramp.first_rows == 0 ? micros : static_cast<uint32_t>(rows_of(step) / (rows * ranks));
  }
  /// Returns this shape for a run that begins at step 0 and sample 0.
  [[nodiscard]] batch_shape from_the_start() const;
  /// Returns the first sample of a micro-batch, counting only samples that are not left out.
  [[nodiscard]] uint64_t first_sample_of(uint64_t step, uint32_t micro, uint32_t rank) const {
    return samples_before(step) + (uint64_t{micro} * ranks + rank) * rows;
  }

 private:
  struct ramp_part {             // steps of one size, while the batch grows
    uint64_t rows = 0, end = 0;  // samples of a step that begins before sample `end`
  };
  [[nodiscard]] ramp_part part_at(uint64_t sample) const;
};

struct batch {  ///< the tokens of one micro-batch on one rank
  uint64_t step = 0;
  uint32_t micro = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;         ///< sequence + 1 tokens of a row: inputs are [0, sequence), targets [1, sequence]
  std::vector<int64_t> tokens;  ///< tokens of the batch: rows x columns, row-major
  /// Position of each row's sample in the global order, from which the row's dropout masks are derived.
  std::vector<uint64_t> samples;
  /// For each input position of a row the column where its document starts, 0 if it starts before the row; rows x
  /// (columns - 1), row-major. Empty: attention ignores documents.
  std::vector<uint32_t> document_start{};
  /// If some inputs have no target: the token that each input position has to find, core::no_target where it has none;
  /// rows x (columns - 1), row-major. Empty: each position's target is the next token.
  std::vector<int64_t> targets{};
  /// Factor of the loss of each input position, rows x (columns - 1), row-major, of a host program's own batch. Empty:
  /// 1.
  std::vector<float> weights{};
  /// Factor by which the mean loss over the batch's positions is multiplied. In training, the mean over the
  /// micro-batches of a step is then the mean over all targets of the step; in an evaluation, a batch's loss is the
  /// mean over its own targets.
  double loss_factor = 1;
  /// For training batches: the input positions grouped by token, and, if document_start is not empty, by their distance
  /// from the start of their document. The gradients of embeddings are summed in these orders.
  core::token_order by_token{}, by_column{};
  /// Error if the batch could not be read or made; the code that uses the batch reports it.
  std::optional<core::error> failure{};
};

/// Returns a batch of `rows` samples, from sample number `first` on. Numbers count only samples that are not in
/// `skipped`, so the batch contains none of these. The batch's step and micro remain 0, and its loss is the mean over
/// its own targets.
batch make_rows(const corpus& corpus, uint64_t first, uint64_t rows, const left_out& skipped = {});

/// Returns the micro-batch number `micro` < shape.micros of `step` for `rank` < shape.ranks; the batch has a failure
/// for any other rank, micro or step.
batch make_batch(const corpus& corpus, const batch_shape& shape, uint64_t step, uint32_t micro, uint32_t rank);

/// Returns how many targets the samples of `step` have, in all its micro-batches together; the step must not be before
/// shape.first_step. Errors: those of reading.
core::result<uint64_t> targets_of_step(const corpus& corpus, const batch_shape& shape, uint64_t step);

/// Returns the number of validation batches, of `rows` windows each, that cover every whole window of a validation set
/// once.
uint64_t validation_batches(const corpus& corpus, uint64_t rows, size_t set = 0);

/// Returns the number of windows in validation batch `index`; 0 after the last batch.
uint64_t validation_rows(const corpus& corpus, uint64_t rows, uint64_t index, size_t set = 0);

/// Returns how much validation batch `index` counts in the mean loss: its part of the windows of a full batch, or, if
/// some inputs have no target, its number of targets. 0 after the last batch. Errors: those of reading.
core::result<double> validation_weight(const corpus& corpus, uint64_t rows, uint64_t index, size_t set = 0);

/// Returns validation batch `index`, with windows in the corpus's order; the last batch may have fewer rows. `samples`
/// holds the windows' numbers. The batch has a failure if `index` is too large.
batch make_validation_batch(const corpus& corpus, uint64_t rows, uint64_t index, size_t set = 0);

/// Returns the number of global micro-batches, one batch on each data rank, that cover a validation set once.
uint64_t evaluations_of(const corpus& corpus, const batch_shape& shape, size_t set);

/// Returns the number of the first global micro-batch of a validation set: evaluations number the sets one after the
/// other.
uint64_t first_evaluation(const corpus& corpus, const batch_shape& shape, size_t set);

/// A validation batch: its set, and its number in the set.
struct validation_place {
  size_t set = 0;
  uint64_t index = 0;
};
/// Returns the batch that data rank `rank` evaluates in global micro-batch `number` of first_evaluation(). If the set
/// has no batch left for the rank, the rank repeats an earlier one, which the mean loss does not count
/// (validation_rows).
validation_place evaluated_place(const corpus& corpus, const batch_shape& shape, uint64_t number, uint32_t rank);

}  // namespace troupe::data
