// Implements the text of the supervision for people: lines for a log, and rows for users who query the run.
#include <fmt/format.h>

#include <algorithm>

#include "cluster/supervision.hpp"

namespace troupe::cluster {

std::string_view name_of(standing s) {
  constexpr std::string_view names[] = {"absent", "starting", "idle", "working", "left"};
  return names[static_cast<size_t>(s)];
}

std::string supervision::table() const {
  std::string out;
  for (uint32_t p = 0; p < members_.size(); ++p) {
    const member& m = members_[p];
    const bool sits = m.is == standing::working;
    out += fmt::format("process {:>3}  pid {:>7}  {:<8}  {}\n", p, m.process_id, name_of(m.is),
                       sits           ? ranks_of(p)
                       : m.losses > 0 ? fmt::format("lost {} times", m.losses)
                                      : "spare");
  }
  return out;
}

roster supervision::people() const {
  roster out{term_.number, {}};
  for (uint32_t p = 0; p < members_.size(); ++p) {
    const member& m = members_[p];
    place_row row{p,
                  machines_.size() > 1 ? job_.hosts[job_.machine_of(p)] : std::string(),
                  m.process_id,
                  std::string(m.is != standing::idle ? name_of(m.is)
                              : rests(p)             ? "resting"
                                                     : "spare"),
                  m.losses,
                  0,
                  0};
    if (const auto at = std::ranges::find(term_.seats, p, &seat::place); at != term_.seats.end()) {
      row.first = at->first;
      row.count = m.is == standing::working ? at->count : 0;
      if (m.is == standing::working && at->count == 0) row.state = "keeper";
    }
    out.places.push_back(std::move(row));
  }
  return out;
}

// Sends the roster to the leading process, which users query, only if it has changed since it was last sent. Several
// changes in between are sent as one.
void supervision::tell_who_is_there() {
  if (term_.is != phase::running || over_) return;
  roster now = people();
  std::string bytes = encode(message(now)) + std::to_string(leader());
  if (bytes == told_roster_) return;
  told_roster_ = std::move(bytes);
  send(leader(), std::move(now));
}

}  // namespace troupe::cluster
