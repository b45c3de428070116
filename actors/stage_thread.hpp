// The thread that the pipeline stages of a rank share. Each stage is an actor with a mailbox; only one computes at a
// time, so one thread serves all, and no thread is woken when the next stage continues. Owns the thread and the queue
// of stages that have messages; the other lanes use detached actors of CAF 0.17.
#pragma once

#include <functional>
#include <memory>

#include "actors/lane.hpp"

namespace troupe::actors {

class stage_thread {
 public:
  /// Starts the thread. The thread ends when this object and all stages spawned on it have been destroyed; `system`
  /// waits for that, as for the thread of a detached actor. Throws std::system_error if the system refuses the thread.
  explicit stage_thread(caf::actor_system& system);

  /// Spawns on this thread the compute-lane actor of chunk `chunk`, a part of the model that the rank computes.
  [[nodiscard]] lane_actor spawn(uint32_t chunk, std::function<std::unique_ptr<executor>()> make_executor,
                                 std::shared_ptr<rank_links> links);

 private:
  class queue;
  struct tenancy;
  class stage;

  caf::actor_system& system_;
  std::shared_ptr<tenancy> open_;
};

}  // namespace troupe::actors
