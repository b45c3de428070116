// The contents of one rank's micro-batch. Pure functions of corpus and place: any thread may
// call them for any step, in any order, with the same answer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/token_order.hpp"
#include "data/corpus.hpp"
#include "data/left_out.hpp"

namespace troupe::data {

/// How a step's global batch is cut. Step `s` takes samples [s * B, (s + 1) * B) of those that are taken, B =
/// global_rows(); where a run resumes from one with another B, step first_step begins at first_sample and the others
/// follow it. Inside a step micro-batch is slowest, then rank, then row:
///   sample = begin of s + (micro * ranks + rank) * rows + row
/// so the set of samples of a step depends on B alone, never on how it was cut. What is taken is the order without
/// `skipped`: the n-th sample stands at position skipped.position_of(n).
struct batch_shape {
  uint64_t rows = 1;    ///< samples of one micro-batch on one rank
  uint32_t ranks = 1;   ///< data-parallel degree
  uint32_t micros = 1;  ///< micro-batches of one step (gradient accumulation)
  uint64_t first_step = 0, first_sample = 0;
  left_out skipped{};
  [[nodiscard]] uint64_t global_rows() const { return rows * ranks * micros; }

  /// Samples that are taken before `step`, which is not before first_step.
  [[nodiscard]] uint64_t samples_before(uint64_t step) const {
    return first_sample + (step - first_step) * global_rows();
  }
  /// The first of a micro-batch, of those that are taken.
  [[nodiscard]] uint64_t first_sample_of(uint64_t step, uint32_t micro, uint32_t rank) const {
    return samples_before(step) + (uint64_t{micro} * ranks + rank) * rows;
  }
};

struct batch {  ///< the tokens of one micro-batch on one rank
  uint64_t step = 0;
  uint32_t micro = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;           ///< sequence + 1: inputs are columns [0, sequence), targets [1, sequence]
  std::vector<int64_t> tokens;    ///< rows x columns, row-major
  std::vector<uint64_t> samples;  ///< position of each row in the global order: the key of its dropout masks
  /// For each input position of a row the column where its document starts, 0 where that lies before the row; rows x
  /// (columns - 1), row-major. Empty: documents do not matter.
  std::vector<uint32_t> document_start{};
  /// Of batches that are trained on: the inputs by token and, where documents matter, by column of their document.
  core::token_order by_token{}, by_column{};
  std::optional<core::error> failure{};  ///< it could not be read or made; whoever uses the batch says so
};

/// Samples [first, first + rows) of those of the training order that are taken; step and micro are left at 0.
batch make_rows(const corpus& corpus, uint64_t first, uint64_t rows, const left_out& skipped = {});

/// The micro-batch that `rank` < shape.ranks trains on as its `micro`-th < shape.micros of `step`; another rank, micro
/// or step is the batch's failure.
batch make_batch(const corpus& corpus, const batch_shape& shape, uint64_t step, uint32_t micro, uint32_t rank);

/// Micro-batches of `rows` that cover every whole window of the held-out text once.
uint64_t validation_batches(const corpus& corpus, uint64_t rows);

/// Windows of the `index`-th of them; 0 behind the last one.
uint64_t validation_rows(const corpus& corpus, uint64_t rows, uint64_t index);

/// The `index`-th of them, windows in the corpus' order; the last one may have fewer rows. `samples` holds the windows'
/// numbers. An index beyond them is the batch's failure.
batch make_validation_batch(const corpus& corpus, uint64_t rows, uint64_t index);

}  // namespace troupe::data
