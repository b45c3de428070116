// The thread that the stages of a rank share. Each of them is an actor with a mailbox; one computes at a time, so one
// thread serves them all, and a turn that goes from one stage to the next wakes nobody. Owns the thread and the queue of
// stages that have messages; CAF 0.17 has detached actors for the other lanes.
#pragma once

#include <functional>
#include <memory>

#include "actors/lane.hpp"

namespace troupe::actors {

class stage_thread {
 public:
  /// Starts the thread. It ends when this object and all stages spawned on it are gone; `system` waits for that, as for
  /// a detached actor's. Throws std::system_error where the thread is refused.
  explicit stage_thread(caf::actor_system& system);

  /// The stage of a chunk, on this thread.
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
