// The loader: one per data-parallel group. Cuts micro-batches out of the token stream ahead of need. The order of
// samples is data/'s pure function of one integer, so the loader keeps nothing that a checkpoint would have to save.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "actors/messages.hpp"
#include "data/batch.hpp"

namespace troupe::actors {

struct loader_setup {  ///< a loader's source and how it cuts
  std::shared_ptr<const data::corpus> corpus;
  data::batch_shape shape;
  uint64_t prefetch_batches = 4;  ///< micro-batches that are ready at most; 1 or more
  /// [position among the ranks that take different samples]: ranks of this process that ask for the same micro-batch, as
  /// those of a pipeline's stages do; empty: one each.
  std::vector<uint32_t> readers;
  /// Instead of data/'s cut (simulation, which has no text); may be empty.
  std::function<std::shared_ptr<const data::batch>(const next_batch&)> cut;
  /// The loader notes here the first training step that lacks a micro-batch; may be null.
  std::shared_ptr<std::atomic<uint64_t>> first_lost_step;
};

struct loader_state {        ///< a loader's state between messages
  loader_state() = default;  // no aggregate: CAF would try to initialise its first member with the actor
  static inline const char* name = "loader";

  struct prepared {
    next_batch key;
    std::shared_ptr<const data::batch> batch;
    uint32_t asked = 0;  ///< readers that have it
  };
  loader_setup setup;
  std::deque<prepared> ready;  ///< at most prefetch_batches
};

/// For `spawn`: a loader.
loader_actor::behavior_type loader_impl(loader_actor::stateful_pointer<loader_state> self, loader_setup setup);

}  // namespace troupe::actors
