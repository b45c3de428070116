#include "actors/processes/keep_for_others.hpp"

#include "actors/processes/machine_wire.hpp"
#include "actors/processes/memory_saves.hpp"

namespace troupe::actors {

core::result<void> keep_for_others(cluster::process& link, const cluster::term_order& order) {
  memory_saves saves(link);
  TROUPE_ASSIGN(const auto wire, machine_wire::open(link, {link.place(), order.order.seats}, order.order.secret));
  saves.use(wire->files(), link.place(), {});
  TROUPE_TRY(saves.keep(order.order.folder, order.files));
  const auto ready = link.ready({});
  // Waits for the end of the term (time with the same processes). Calls are for processes with ranks and are ignored
  // here.
  auto next = ready ? link.next_call() : core::fail(ready.error());
  while (next) next = link.next_call();
  wire->stop(next.error());
  return core::fail(next.error());
}

}  // namespace troupe::actors
