// Finds links between processes of several machines that delay steps although nothing is lost: bytes arrive much more
// slowly than on the job's faster links. Owns the choice of these links and the sentences about them; net/data_edge.hpp
// measures.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/processes/link_traffic.hpp"
#include "actors/processes/members.hpp"
#include "actors/processes/slow_link_report.hpp"
#include "config/sections/cluster_config.hpp"

namespace troupe::actors {

/// One direction of a link that has become slow.
struct slow_link {
  uint32_t from = 0, to = 0;
  double bytes_per_s = 0, usual_bytes_per_s = 0;
  double share = 0;  ///< share of the steps' time, from 0 to 1, that would be saved if the link reached the usual rate
};

/// The links of a term (time with the same processes). The usual rate is that of the job's faster links: a quarter of
/// all links is at least as fast.
class slow_links {
 public:
  /// Number of steps that are evaluated together (a window). A link is reported after `windows_until_named` slow
  /// windows in a row.
  static constexpr uint32_t window = 8;
  static constexpr uint32_t windows_until_named = 2;
  /// Limits as parts of the usual rate: a link whose rate is below `slow_below` is slow, and one from `well_from` on
  /// has recovered.
  static constexpr double slow_below = 0.25, well_from = 0.5;
  /// smallest share of the steps' time that a link must cost to be reported as slow
  static constexpr double cost_min = 0.2;
  /// Least number of bytes that a link must carry in a window for its rate to be judged.
  static constexpr uint64_t bytes_min = uint64_t{64} << 10;

  /// Evaluates the links after a training step. `since_begin`: traffic of each link since the term (time with the same
  /// processes) began. Returns the links that have become slow, the slowest first; a link is returned again only after
  /// it has recovered.
  std::vector<slow_link> note(int64_t now_ns, std::span<const link_traffic> since_begin);

 private:
  using ends = std::pair<uint32_t, uint32_t>;  // numbers of the sending and the receiving process of a link
  struct known {
    uint64_t bytes = 0;  // bytes that the link had carried when the window began
    int64_t receiving_ns = 0;
    uint32_t slow_windows = 0;
    bool is_named = false;
  };

  std::map<ends, known> links_;
  std::optional<int64_t> begin_ns_;
  uint32_t steps_ = 0;
};

/// Returns the report of a slow link, with its ends as "host b (rank 1)", and its figures.
slow_link_report report_of(const slow_link& x, uint64_t step, const term_members& members,
                           const std::vector<config::cluster_host>& hosts);
/// Returns the ends of a link as "from host b (rank 1) to host a (rank 0)".
std::string ends_of(const slow_link_report& x);
/// Returns the sentence that names a link when it has become slow.
std::string text_of(const slow_link_report& x);
/// Returns the sentence on slow links for the end of a run; empty if no link was slow.
std::string slow_links_of_run(const std::vector<std::string>& ends);

}  // namespace troupe::actors
