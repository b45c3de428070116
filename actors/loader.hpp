// The loader, one actor per process: cuts micro-batches out of the token stream for the ranks of the process, before
// they are needed. The order of samples is a pure function of one integer in data/, so the loader has no state that a
// checkpoint would have to save.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "actors/messages.hpp"
#include "data/batch.hpp"
#include "data/corpus.hpp"

namespace troupe::actors {

struct loader_setup {  ///< corpus from which a loader cuts micro-batches, and their shape
  std::shared_ptr<const data::corpus> corpus;
  data::batch_shape shape;
  uint64_t prefetch_batches = 4;  ///< largest number of micro-batches that are ready at a time; at least 1
  /// [data position]: number of ranks of this process that request the same micro-batch, such as the stages of a
  /// pipeline; a data position counts the ranks that train on different samples. Empty: one rank for each position.
  std::vector<uint32_t> readers;
  /// Function that makes a micro-batch in place of the corpus: for a host program's own batches, and in
  /// simulations. Empty: the corpus is used.
  std::function<std::shared_ptr<const data::batch>(const next_batch&)> cut;
  /// receives the number of the first training step of which a micro-batch could not be read; may be null
  std::shared_ptr<std::atomic<uint64_t>> first_lost_step;
};

struct loader_state {        ///< a loader's state between messages
  loader_state() = default;  // not an aggregate: CAF would try to initialise its first member with the actor
  static inline const char* name = "loader";

  struct prepared {
    next_batch key;
    std::shared_ptr<const data::batch> batch;
    uint32_t asked = 0;  ///< number of readers that have received the micro-batch
  };
  loader_setup setup;
  /// Prepared micro-batches that some reader has not received yet; at most setup.prefetch_batches.
  std::deque<prepared> ready;
};

/// Makes the behavior of a loader, for `spawn`.
loader_actor::behavior_type loader_impl(loader_actor::stateful_pointer<loader_state> self, loader_setup setup);

}  // namespace troupe::actors
