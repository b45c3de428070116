#include "actors/host.hpp"

#include <utility>

namespace troupe::actors {
namespace {

using first_type = std::integral_constant<caf::type_id_t, caf::id_block::troupe_first_type_id>;
constexpr size_t num_types = caf::id_block::troupe::end - caf::id_block::troupe::begin;

// Returns the name of the first message type that is not registered in `system`; null if all are registered.
template <size_t... i>
const char* missing_type(const caf::uniform_type_info_map& known, std::index_sequence<i...>) {
  const char* missing = nullptr;
  (void)((known.make_value(typeid(typename caf::type_by_id<first_type::value + i>::type)) == nullptr
              ? (missing = caf::type_name_by_id<first_type::value + i>::value, true)
              : false) ||
         ...);
  return missing;
}

}  // namespace

void add_message_types(caf::actor_system_config& settings) { settings.add_message_types<caf::id_block::troupe>(); }

core::result<void> check_system(caf::actor_system& system) {
  if (const char* name = missing_type(system.types(), std::make_index_sequence<num_types>()))
    return core::fail(core::error_kind::bad_input,
                      std::string("session: the host's actor system does not know the message ") + name +
                          "; call troupe::actors::add_message_types(settings) before it is made from its settings");
  if (caf::get_or(system.config(), "scheduler.policy", caf::atom("")) == caf::atom("testing"))
    return core::fail(core::error_kind::bad_input,
                      "session: the host's actor system has the scheduler.policy testing, which runs no actor by "
                      "itself; wanted sharing or stealing (simulated time: actors/sim/sim.hpp)");
  return {};
}

}  // namespace troupe::actors
