#include "fabric/wire/homes.hpp"

#include <fmt/format.h>

#include <map>
#include <set>

namespace troupe::fabric {

core::result<homes> homes::make(const std::vector<home>& of_members) {
  if (of_members.empty()) return core::refused("a communicator of at least one member was wanted");
  homes out;
  std::set<uint32_t> seen;
  std::map<uint32_t, uint32_t> machine_of_place;
  for (uint32_t m = 0; m < of_members.size(); ++m) {
    const home& x = of_members[m];
    if (m == 0 || x.machine != of_members[m - 1].machine) {
      if (!seen.insert(x.machine).second)
        return core::fail(core::error_kind::mismatch,
                          fmt::format("consecutive members of each machine were wanted, got member {} on machine {} "
                                      "after members of machine {}",
                                      m, x.machine, of_members[m - 1].machine));
      out.first_.push_back(m);
    }
    if (machine_of_place.emplace(x.place, x.machine).first->second != x.machine)
      return core::fail(core::error_kind::mismatch,
                        fmt::format("a process on one machine was wanted, got process {} on machines {} and {}",
                                    x.place, machine_of_place[x.place], x.machine));
    out.machine_.push_back(static_cast<uint32_t>(out.first_.size()) - 1);
    out.place_.push_back(x.place);
  }
  out.first_.push_back(static_cast<uint32_t>(of_members.size()));
  return out;
}

}  // namespace troupe::fabric
