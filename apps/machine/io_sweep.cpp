#include "apps/machine/io_sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

namespace troupe::apps {

using storage::io_kind;

namespace {

double sum(const io_point& p) { return median(p.read) + median(p.write); }

}  // namespace

double median(std::vector<double> runs) {
  if (runs.empty()) return 0;
  const auto middle = runs.begin() + static_cast<ptrdiff_t>(runs.size() / 2);
  std::nth_element(runs.begin(), middle, runs.end());
  return *middle;
}

core::result<io_settings> settings_of(const io_arguments& a) {
  const size_t wanted = a.block_bytes.size() * a.queue_depths.size() * a.threads.size() * a.single_submit.size() *
                        a.overlap_events.size();
  if (wanted > io_settings_max)
    return core::fail(core::error_kind::limit,
                      fmt::format("wanted at most {} settings in one sweep, got {}", io_settings_max, wanted));
  io_settings out;
  uint64_t least = UINT64_MAX;
  for (const uint64_t block : a.block_bytes)
    for (const unsigned depth : a.queue_depths)
      for (const unsigned threads : a.threads)
        for (const bool single : a.single_submit)
          for (const bool overlap : a.overlap_events) {
            const storage::throughput_setting s{block, depth, threads, single, overlap, !a.unregistered, a.engine};
            TROUPE_TRY(storage::check(s));
            least = std::min(least, storage::memory_bytes(s));
            if (storage::memory_bytes(s) <= a.bytes)
              out.tried.push_back(s);
            else
              ++out.left_out;
          }
  if (out.tried.empty())
    return core::fail(core::error_kind::bad_input,
                      fmt::format("--size: wanted a file of at least {} bytes, the least that a setting has in flight, "
                                  "got {}",
                                  least, a.bytes));
  return out;
}

core::result<std::vector<io_point>> sweep(storage::throughput_probe& probe, const io_settings& settings,
                                          const io_arguments& a,
                                          const std::function<void(size_t pass, size_t of)>& say) {
  std::vector<io_point> out;
  for (const auto& s : settings.tried) out.push_back({s, {}, {}});
  std::vector<size_t> round(out.size());
  std::iota(round.begin(), round.end(), size_t{0});
  const size_t directions = a.read_only || a.write_only ? 1 : 2;
  const size_t finalists = std::min(out.size(), io_finalists_max);
  const size_t passes = (a.loops * out.size() + a.final_loops * finalists) * directions;
  size_t pass = 0;
  for (unsigned loop = 0; loop < a.loops + a.final_loops; ++loop) {
    if (loop == a.loops) {
      std::stable_sort(round.begin(), round.end(), [&](size_t x, size_t y) { return sum(out[x]) > sum(out[y]); });
      round.resize(finalists);
    }
    for (const size_t i : round)
      for (const auto kind : {io_kind::write, io_kind::read}) {
        if ((kind == io_kind::write && a.read_only) || (kind == io_kind::read && a.write_only)) continue;
        say(pass++, passes);
        TROUPE_ASSIGN(const auto rate, probe.measure(kind, out[i].setting));
        (kind == io_kind::read ? out[i].read : out[i].write).push_back(rate);
      }
  }
  return out;
}

std::vector<const io_point*> decisive(const std::vector<io_point>& points) {
  const auto passes = [](const io_point& p) { return std::max(p.read.size(), p.write.size()); };
  size_t most = 1;
  for (const auto& p : points) most = std::max(most, passes(p));
  std::vector<const io_point*> out;
  for (const auto& p : points)
    if (passes(p) == most) out.push_back(&p);
  return out;
}

const io_point* best(const std::vector<io_point>& points, io_kind kind) {
  const io_point* out = nullptr;
  double highest = 0;
  for (const io_point* p : decisive(points))
    if (const double rate = median(kind == io_kind::read ? p->read : p->write); rate > highest) {
      highest = rate;
      out = p;
    }
  return out;
}

const io_point* advised(const std::vector<io_point>& points) {
  auto all = decisive(points);
  std::erase_if(all, [](const io_point* p) { return p->setting.block_bytes % aio_block_multiple != 0; });
  double highest = 0;
  for (const auto* p : all) highest = std::max(highest, sum(*p));
  const auto cost = [](const io_point& p) {
    return std::tuple(p.setting.threads, storage::memory_bytes(p.setting), p.setting.single_submit,
                      !p.setting.overlap_events);
  };
  const io_point* out = nullptr;
  for (const auto* p : all)
    if (sum(*p) >= (1 - io_equal_within) * highest && (out == nullptr || cost(*p) < cost(*out))) out = p;
  return out;
}

}  // namespace troupe::apps
