#include "tests/sim/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "tests/sim/touches.hpp"

namespace troupe::actors {
namespace {

using plan::kind;
using plan::none;

struct instruction_place {
  uint32_t rank = 0, id = none;
};

/// The value that tags a run of bytes, and the instruction that has written it.
struct content {
  uint64_t value = 0;
  instruction_place writer;
};
/// Tags of slot bytes that were never written, and of bytes that were released.
constexpr uint64_t unwritten = 0, given_back = 1;

uint64_t mixed(uint64_t a, uint64_t b) {
  a ^= b + 0x9E3779B97F4A7C15ULL + (a << 6U) + (a >> 2U);
  a *= 0xBF58476D1CE4E5B9ULL;
  return a ^ (a >> 29U);
}

/// The tags of one memory area of a rank, as runs of bytes; each run ends at the next key.
class contents {
 public:
  explicit contents(uint64_t at_first) { runs_[0] = {at_first, {}}; }

  void write(const place& x, const content& what) {
    split(x.first);
    split(x.end);
    runs_.erase(runs_.lower_bound(x.first), runs_.lower_bound(x.end));
    runs_[x.first] = what;
  }
  /// Returns the tags of the bytes in `x`; neighbouring runs with equal values are merged.
  [[nodiscard]] std::vector<content> read(const place& x) const {
    std::vector<content> out;
    for (auto it = std::prev(runs_.upper_bound(x.first)); it != runs_.end() && it->first < x.end; ++it)
      if (out.empty() || out.back().value != it->second.value) out.push_back(it->second);
    return out;
  }

 private:
  void split(uint64_t at) { runs_.try_emplace(at, std::prev(runs_.upper_bound(at))->second); }
  std::map<uint64_t, content> runs_;
};

class memory_of_all {
 public:
  contents& of(uint32_t rank, const place& x) {
    const auto name = std::make_tuple(rank, x.of, x.index);
    const uint64_t area_name = mixed(static_cast<uint64_t>(x.of), x.index) | 2U;
    return areas_.try_emplace(name, x.of == area::slots ? unwritten : area_name).first->second;
  }

 private:
  std::map<std::tuple<uint32_t, area, uint32_t>, contents> areas_;
};

bool overlap(const place& a, const place& b) {
  return a.of == b.of && a.index == b.index && a.first < b.end && b.first < a.end;
}

class replayer {
 public:
  replayer(const shared_rank_plans& plans, plan::branch taken, const meaning& right)
      : plans_(plans), taken_(taken), right_(right), using_(plans.size()) {}

  core::result<void> take(const sim_event& e) {
    const plan::instruction& x = plans_[e.rank]->instructions[e.id];
    if (!plan::acts(x.guard, taken_)) return {};
    if (x.lane != plan::lane::fabric) return e.end ? end({{e.rank, e.id}}) : start({{e.rank, e.id}});
    // A collective moves bytes between the last start and the first end among its members.
    auto& posted = collectives_[{x.communicator, x.sequence}];
    if (e.end) return std::exchange(posted.over, true) ? core::result<void>{} : end(posted.members);
    posted.members.push_back({e.rank, e.id});
    const auto& all = plans_[e.rank]->layout->communicators[x.communicator].members;
    if (posted.members.size() < all.size()) return {};
    std::ranges::sort(posted.members, {}, &instruction_place::rank);
    return start(posted.members);
  }
  meaning made() { return std::move(made_); }

 private:
  struct posted_collective {
    std::vector<instruction_place> members;
    bool over = false;
  };
  struct use {
    uint32_t id = none;
    touch what;
  };
  [[nodiscard]] const plan::instruction& at(const instruction_place& x) const {
    return plans_[x.rank]->instructions[x.id];
  }
  [[nodiscard]] std::string name(const instruction_place& x) const {
    if (x.id == none) return "nobody";
    return fmt::format("rank {}: {} (instruction {})", x.rank, plans_[x.rank]->describe(x.id), x.id);
  }
  tl::unexpected<core::error> wrong(const instruction_place& x, const std::string& what) const {
    return core::fail(core::error_kind::bug, name(x) + " " + what);
  }

  core::result<void> start(const std::vector<instruction_place>& members) {
    uint64_t found = 0;
    bool read_any = false;
    for (const auto& x : members) {
      for (const touch& t : touches_of(*plans_[x.rank], at(x))) {
        for (const use& other : using_[x.rank])
          if (other.id != x.id && overlap(other.what.where, t.where) &&
              (t.how != touch::way::reads || other.what.how != touch::way::reads))
            return wrong(x, (t.how == touch::way::reads ? "reads bytes that " : "writes bytes that ") +
                                name({x.rank, other.id}) +
                                (other.what.how == touch::way::reads ? " still reads" : " still writes"));
        using_[x.rank].push_back({x.id, t});
        if (t.how == touch::way::writes) continue;
        for (const content& c : memory_.of(x.rank, t.where).read(t.where)) {
          if (t.where.of == area::slots && c.value == unwritten)
            return wrong(x, "reads bytes that nothing has written");
          if (t.where.of == area::slots && c.value == given_back)
            return wrong(x, "reads bytes that " + name(c.writer) + " has given back");
          // A copy keeps the value of its original, even if it reads that value in several runs.
          if (only_copies(at(x)) && read_any && c.value == found) continue;
          found = only_copies(at(x)) && !read_any ? c.value : mixed(found, c.value);
          read_any = true;
        }
      }
    }
    found_[{members.front().rank, members.front().id}] = found;
    return {};
  }

  core::result<void> end(const std::vector<instruction_place>& members) {
    const auto& first = members.front();
    const uint64_t found = found_[{first.rank, first.id}];
    for (const auto& x : members) {
      std::erase_if(using_[x.rank], [&](const use& u) { return u.id == x.id; });
      const plan::instruction& what = at(x);
      const uint64_t value = only_copies(what) ? found : expression(what, found);
      for (const touch& t : touches_of(*plans_[x.rank], what)) {
        if (t.how == touch::way::reads) continue;
        const bool gives_back = what.kind == kind::release && t.where.of == area::slots;
        memory_.of(x.rank, t.where).write(t.where, {gives_back ? given_back : value, x});
      }
      if (only_copies(what) || what.kind == kind::gather) continue;
      const task done{x.rank, what.kind, what.subject, what.segment, what.micro, what.use, what.repeats, what.piece};
      made_[done] = value;
      if (right_.empty()) continue;
      const auto wanted = right_.find(done);
      if (wanted == right_.end()) return wrong(x, "does what nobody wants");
      if (wanted->second != value) return wrong(x, "computes from other bytes than it should");
    }
    return {};
  }
  // Returns the value that instruction `x` computes from the combined input value `found`. The value of a gather is
  // independent of its ranks and micro-batch.
  static uint64_t expression(const plan::instruction& x, uint64_t found) {
    uint64_t out = mixed(mixed(static_cast<uint64_t>(x.kind) + 2, x.subject), found);
    if (x.kind == kind::gather) return out | 2U;
    for (const uint64_t part :
         {uint64_t{x.segment}, uint64_t{x.micro}, static_cast<uint64_t>(x.use), uint64_t{x.piece}})
      out = mixed(out, part);
    return out | 2U;
  }

  const shared_rank_plans& plans_;
  plan::branch taken_;
  const meaning& right_;
  memory_of_all memory_;
  std::vector<std::vector<use>> using_;  // bytes that running instructions use, by rank
  // Starts and end of each collective, by communicator and sequence number.
  std::map<std::pair<uint32_t, uint32_t>, posted_collective> collectives_;
  // Input values of running instructions, by rank and instruction.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> found_;
  meaning made_;
};

}  // namespace

core::result<meaning> replay(const shared_rank_plans& plans, const sim_result& result, size_t run,
                             const meaning& right) {
  const auto& outcome = result.runs[run].outcome;
  const auto taken = outcome.result.skipped   ? plan::branch::skipped
                     : outcome.result.clipped ? plan::branch::clipped
                                              : plan::branch::not_skipped;
  replayer all(plans, taken, right);
  for (const sim_event& e : result.log)
    if (e.run == outcome.run)
      if (auto ok = all.take(e); !ok) return core::fail(ok.error());
  return all.made();
}

}  // namespace troupe::actors
