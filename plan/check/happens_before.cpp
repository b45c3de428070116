// Builds the happens-before order in one pass over the instructions of all ranks in topological order. Memory and time
// are linear in instructions x serial lanes, in lines (lanes and communicators) x instructions that may end out of
// order, and in collectives x ranks: a plan of 100 layers, 8 micro-batches and 8 ranks takes a few MB.
#include "plan/check/happens_before.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace troupe::plan {
namespace {

/// Maximum number of instructions of a cycle that an error names.
constexpr size_t names_max = 8;

}  // namespace

class order_builder {
 public:
  order_builder(rank_plans ranks, branch taken) : ranks_(ranks), taken_(taken) {}

  core::result<happens_before> run() {
    place_communicators();
    place_instructions();
    TROUPE_TRY(sort());
    for (const node n : order_) is_collective(n) ? reach_collective(n) : reach(n);
    return std::move(out_);
  }

 private:
  // A node of the graph. A collective is represented by its first member, every other instruction by itself.
  struct node {
    uint32_t rank = 0, id = none;
  };
  enum class mark : uint8_t { unseen, open, done };

  [[nodiscard]] const instruction& at(node n) const { return ranks_[n.rank]->instructions[n.id]; }
  [[nodiscard]] uint32_t index(node n) const { return out_.base_[n.rank] + n.id; }
  [[nodiscard]] bool is_collective(node n) const { return at(n).lane == lane::fabric; }
  [[nodiscard]] uint32_t collective_of(node n) const { return out_.spots_[index(n)].async; }
  [[nodiscard]] node node_of(uint32_t rank, uint32_t id) const {
    const node n{rank, id};
    return is_collective(n) ? members_[collective_of(n)].front() : n;
  }

  // Assigns a line (a sequence of instructions that start in order) to each communicator that a given rank is in, and
  // to each pair of such a rank and communicator an index in the rank's rows (happens_before::ended_before_).
  void place_communicators() {
    const auto& all = ranks_[0]->layout->communicators;
    out_.num_ranks_ = static_cast<uint32_t>(ranks_.size());
    line_of_.assign(all.size(), none);
    num_lines_ = out_.first_communicator();
    out_.collective_of_row_.resize(ranks_.size());
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      own_.emplace_back(all.size(), none);
      for (uint32_t c = 0; c < all.size(); ++c) {
        if (ranks_[r]->num_collectives[c] == 0) continue;
        own_[r][c] = static_cast<uint32_t>(out_.collective_of_row_[r].size());
        if (line_of_[c] == none) {
          line_of_[c] = num_lines_++;
          out_.collective_.push_back(out_.num_async_);
          out_.num_async_ += ranks_[r]->num_collectives[c];
        }
        out_.collective_of_row_[r].push_back(out_.collective_[line_of_[c] - out_.first_communicator()]);
      }
    }
    members_.resize(out_.num_async_);
    out_.arrival_.resize(members_.size() * ranks_.size());
  }
  [[nodiscard]] uint32_t width(uint32_t rank) const { return out_.width(rank); }
  [[nodiscard]] uint32_t async_of(const instruction& x) const {
    return out_.collective_[line_of_[x.communicator] - out_.first_communicator()] + x.sequence;
  }

  void place_instructions() {
    size_t rows = 0;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      out_.base_.push_back(static_cast<uint32_t>(out_.spots_.size()));
      out_.spots_.resize(out_.spots_.size() + ranks_[r]->instructions.size());
      out_.ended_base_.push_back(rows);
      rows += ranks_[r]->instructions.size() * width(r);
    }
    out_.ended_before_.assign(rows, 0);
    out_.clocks_.resize(out_.spots_.size());
    previous_.assign(out_.spots_.size(), none);
    for (uint32_t r = 0; r < ranks_.size(); ++r)
      for (uint32_t l = 0; l < num_lanes; ++l)
        static_cast<lane>(l) == lane::fabric ? place_fabric(r) : place_lane(r, static_cast<lane>(l));
    out_.first_.assign(size_t{num_lines_} * out_.num_async_, none);
    predecessors_.assign(num_lines_, {});
    taken_over_.assign(size_t{num_lines_} * num_lines_, 0);
  }
  void place_lane(uint32_t r, lane l) {
    const bool starts_only = l == lane::control || l == lane::io;
    const auto& ids = ranks_[r]->lanes[static_cast<size_t>(l)];
    uint32_t last = none;
    for (uint32_t i = 0; i < ids.size(); ++i) {
      auto& s = out_.spots_[out_.base_[r] + ids[i]];
      s.line = happens_before::lines_of_rank * r + happens_before::number_of(l);
      s.position = i;
      if (starts_only) s.async = out_.num_async_++;
      previous_[out_.base_[r] + ids[i]] = last;
      if (runs(ranks_[r]->instructions[ids[i]], taken_)) last = ids[i];
    }
  }
  void place_fabric(uint32_t r) {
    std::vector<uint32_t> last(line_of_.size(), none);
    for (const uint32_t id : ranks_[r]->lanes[static_cast<size_t>(lane::fabric)]) {
      const instruction& x = ranks_[r]->instructions[id];
      auto& s = out_.spots_[out_.base_[r] + id];
      s.line = line_of_[x.communicator];
      s.position = x.sequence;
      s.async = async_of(x);
      members_[s.async].push_back({r, id});
      previous_[out_.base_[r] + id] = last[x.communicator];
      if (runs(x, taken_)) last[x.communicator] = id;
    }
  }

  void for_each_wait(node n, auto f) const {
    const auto waits_of = [&](node member) {
      for (uint32_t on : at(member).after)
        if (runs(ranks_[member.rank]->instructions[on], taken_)) f(node_of(member.rank, on));
    };
    if (const uint32_t last = previous_[index(n)]; last != none) f(node_of(n.rank, last));
    if (!is_collective(n)) return waits_of(n);
    for (const node member : members_[collective_of(n)]) waits_of(member);
  }

  // Sorts the nodes topologically: depth first along their waits, without recursion, because plans are deep.
  core::result<void> sort() {
    std::vector<mark> marks(out_.spots_.size(), mark::unseen);
    std::vector<node> path, waits;
    std::vector<size_t> begins;
    const auto enter = [&](node n) {
      marks[index(n)] = mark::open;
      path.push_back(n);
      begins.push_back(waits.size());
      for_each_wait(n, [&](node on) { waits.push_back(on); });
    };
    for (uint32_t r = 0; r < ranks_.size(); ++r)
      for (const auto& x : ranks_[r]->instructions) {
        const node start = node_of(r, x.id);
        if (!runs(x, taken_) || marks[index(start)] != mark::unseen) continue;
        enter(start);
        while (!path.empty()) {
          if (waits.size() == begins.back()) {
            marks[index(path.back())] = mark::done;
            order_.push_back(path.back());
            path.pop_back();
            begins.pop_back();
            continue;
          }
          const node on = waits.back();
          waits.pop_back();
          if (marks[index(on)] == mark::open) return cycle(path, on);
          if (marks[index(on)] == mark::unseen) enter(on);
        }
      }
    return {};
  }

  [[nodiscard]] tl::unexpected<core::error> cycle(const std::vector<node>& path, node again) const {
    const auto name = [&](node n) {
      return fmt::format("rank {} {}", ranks_[n.rank]->rank, ranks_[n.rank]->describe(n.id));
    };
    size_t i = 0;
    while (index(path[i]) != index(again)) ++i;
    std::string text = "the plan never ends: " + name(again);
    const size_t members = path.size() - i;
    for (size_t k = 1; k < std::min(members, names_max); ++k) text += " waits for " + name(path[i + k]) + ", which";
    if (members > names_max) text += fmt::format(" waits for {} more, the last of which", members - names_max);
    return core::fail(core::error_kind::bug, text + " waits for " + name(again));
  }

  using clock = happens_before::clock;
  static void merge(clock& to, const clock& from) {
    for (uint32_t l = 0; l < happens_before::num_serial; ++l) to.ended[l] = std::max(to.ended[l], from.ended[l]);
  }
  [[nodiscard]] uint32_t* row_of(uint32_t rank, uint32_t id) {
    return out_.ended_before_.data() + out_.ended_base_[rank] + size_t{id} * width(rank);
  }

  void note(uint32_t line, uint32_t position, uint32_t async) {
    auto& first = out_.first_[size_t{line} * out_.num_async_ + async];
    if (first != none) return;
    first = position;
    predecessors_[line].push_back({position, async});
  }
  // Records that the instruction at position `mine` starts after instruction `on` has ended (if `ended`; else after
  // `on` has started), and that all instructions that precede `on` therefore precede the instruction at `mine`.
  void take_over(const happens_before::spot& mine, node on, bool ended) {
    const auto& other = out_.spots_[index(on)];
    if (ended && other.async != none) note(mine.line, mine.position, other.async);
    if (mine.line == other.line) return;
    const auto& predecessors = predecessors_[other.line];
    auto& next = taken_over_[size_t{mine.line} * predecessors_.size() + other.line];
    for (; next < predecessors.size() && predecessors[next].position <= other.position; ++next)
      note(mine.line, mine.position, predecessors[next].async);
  }
  // Adds the consequences of an instruction's wait for `on` to the instruction's clock `c` (for each serial lane, how
  // many instructions have ended before it) and to its `row` (for each communicator, the latest collective that has
  // ended before it).
  void follow(uint32_t rank, node on, bool ended, clock& c, uint32_t* row) {
    if (is_collective(on)) {
      merge(c, out_.arrival(collective_of(on), rank));
      if (ended) {
        auto& latest = row[own_[rank][at(on).communicator]];
        latest = std::max(latest, at(on).sequence + 1);
      }
      return;
    }
    merge(c, out_.clocks_[index(on)]);
    const uint32_t* theirs = row_of(rank, on.id);
    for (uint32_t i = 0; i < width(rank); ++i) row[i] = std::max(row[i], theirs[i]);
    const auto& other = out_.spots_[index(on)];
    if (!ended || other.async != none) return;
    auto& e = c.ended[happens_before::serial_of(at(on).lane)];
    e = std::max(e, other.position + 1);
  }

  void reach(node n) {
    const auto& mine = out_.spots_[index(n)];
    clock& c = out_.clocks_[index(n)];
    uint32_t* row = row_of(n.rank, n.id);
    const auto wait = [&](uint32_t on, bool ended) {
      const node other = node_of(n.rank, on);
      follow(n.rank, other, ended, c, row);
      take_over(mine, other, ended);
    };
    if (const uint32_t last = previous_[index(n)]; last != none) wait(last, mine.async == none);
    for (uint32_t on : at(n).after)
      if (runs(ranks_[n.rank]->instructions[on], taken_)) wait(on, true);
  }

  // Computes the arrival of a collective: for each rank, how many instructions of its serial lanes have ended before
  // the collective moves bytes. The instructions and earlier collectives that the members wait for determine these
  // numbers.
  void reach_collective(node n) {
    const uint32_t k = collective_of(n);
    const auto& mine = out_.spots_[index(n)];
    if (const uint32_t last = previous_[index(n)]; last != none) {
      const node before = node_of(n.rank, last);
      know(k, collective_of(before));
      take_over(mine, before, false);
    }
    for (const node member : members_[k]) {
      scratch_.assign(width(member.rank), 0);
      clock c;
      for (uint32_t on : at(member).after) {
        if (!runs(ranks_[member.rank]->instructions[on], taken_)) continue;
        const node other = node_of(member.rank, on);
        follow(member.rank, other, true, c, scratch_.data());
        take_over(mine, other, true);
      }
      merge(out_.arrival_[size_t{k} * out_.num_ranks_ + member.rank], c);
      for (uint32_t comm = 0; comm < own_[member.rank].size(); ++comm) {
        const uint32_t own = own_[member.rank][comm];
        if (own == none || scratch_[own] == 0) continue;
        know(k, out_.collective_[line_of_[comm] - out_.first_communicator()] + scratch_[own] - 1);
      }
    }
  }
  // Adds to the arrival of `collective` everything that had ended before collective `other` moved bytes.
  void know(uint32_t collective, uint32_t other) {
    for (uint32_t r = 0; r < out_.num_ranks_; ++r)
      merge(out_.arrival_[size_t{collective} * out_.num_ranks_ + r], out_.arrival(other, r));
  }

  struct news {
    uint32_t position, async;
  };

  rank_plans ranks_;
  branch taken_;
  happens_before out_;
  uint32_t num_lines_ = 0;
  std::vector<uint32_t> line_of_;           // [communicator]: number of the communicator's line; none if no given rank
                                            // is a member
  std::vector<std::vector<uint32_t>> own_;  // [rank][communicator]: index of the communicator among the communicators
                                            // of the rank
  std::vector<std::vector<node>> members_;  // [collective]: instructions of its members
  std::vector<uint32_t> previous_;  // [instruction]: id of the previous instruction of the same lane or communicator
                                    // that runs in this branch
  std::vector<node> order_;
  std::vector<std::vector<news>> predecessors_;  // [line]: entries that say which instruction (`async`) ends before the
                                                 // instruction at `position` starts
  // [line * lines + other]: number of entries of predecessors_[other] that the line has copied
  std::vector<size_t> taken_over_;
  std::vector<uint32_t> scratch_;
};

core::result<happens_before> happens_before::build(rank_plans ranks, branch taken) {
  return order_builder(ranks, taken).run();
}

bool happens_before::before(uint32_t ra, uint32_t a, uint32_t rb, uint32_t b) const {
  const spot &x = at(ra, a), &y = at(rb, b);
  if (x.async != none) return first_[size_t{y.line} * num_async_ + x.async] <= y.position;
  const uint32_t serial = x.line % lines_of_rank - 1;
  if (y.line >= first_communicator()) return arrival(y.async, ra).ended[serial] > x.position;
  if (ra == rb) return clocks_[base_[rb] + b].ended[serial] > x.position;
  const uint32_t* row = ended_before_.data() + ended_base_[rb] + size_t{b} * width(rb);
  for (uint32_t i = 0; i < width(rb); ++i)
    if (row[i] > 0 && arrival(collective_of_row_[rb][i] + row[i] - 1, ra).ended[serial] > x.position) return true;
  return false;
}

}  // namespace troupe::plan
