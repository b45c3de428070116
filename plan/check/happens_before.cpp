// One pass over the instructions of all ranks in topological order. Memory and time are linear in instructions x serial
// lanes and in lanes x collectives: a plan of 100 layers, 8 micro-batches and 8 ranks takes a few MB.
#include "plan/check/happens_before.hpp"

#include <algorithm>
#include <string>

namespace troupe::plan {
namespace {

/// Instructions of a cycle that an error spells out.
constexpr size_t names_max = 8;

}  // namespace

class order_builder {
 public:
  order_builder(rank_plans ranks, branch taken) : ranks_(ranks), taken_(taken) {}

  core::result<happens_before> run() {
    place();
    if (auto sorted = sort(); !sorted) return core::fail(sorted.error());
    for (const node n : order_) reach(n);
    return std::move(out_);
  }

 private:
  // A collective of all ranks is one node, with `rank` 0. Every other instruction is its own node.
  struct node {
    uint32_t rank = 0, id = none;
  };
  enum class mark : uint8_t { unseen, open, done };

  [[nodiscard]] const instruction& at(node n) const { return ranks_[n.rank]->instructions[n.id]; }
  [[nodiscard]] uint32_t index(node n) const { return out_.base_[n.rank] + n.id; }
  [[nodiscard]] node node_of(uint32_t rank, uint32_t id) const {
    const instruction& x = ranks_[rank]->instructions[id];
    return x.lane == lane::fabric ? node{0, fabric_[x.sequence]} : node{rank, id};
  }

  void place() {
    const auto num_ranks = static_cast<uint32_t>(ranks_.size());
    const uint32_t num_collectives = ranks_[0]->num_collectives;
    out_.num_ranks_ = num_ranks;
    out_.num_async_ = num_collectives;
    fabric_ = ranks_[0]->lanes[static_cast<size_t>(lane::fabric)];
    for (const auto& p : ranks_) {
      out_.base_.push_back(static_cast<uint32_t>(out_.spots_.size()));
      out_.spots_.resize(out_.spots_.size() + p->instructions.size());
    }
    previous_.assign(out_.spots_.size(), none);
    for (uint32_t r = 0; r < num_ranks; ++r)
      for (uint32_t l = 0; l < num_lanes; ++l) {
        const bool is_fabric = l == static_cast<uint32_t>(lane::fabric);
        const bool starts_only = l == static_cast<uint32_t>(lane::control) || l == static_cast<uint32_t>(lane::io);
        const auto& ids = ranks_[r]->lanes[l];
        uint32_t last = none;
        for (uint32_t i = 0; i < ids.size(); ++i) {
          auto& s = out_.spots_[out_.base_[r] + ids[i]];
          s.lane = is_fabric ? out_.fabric()
                             : happens_before::lanes_of_rank * r + happens_before::number_of(static_cast<lane>(l));
          s.position = i;
          if (is_fabric) s.async = i;
          if (starts_only) s.async = out_.num_async_++;
          previous_[out_.base_[r] + ids[i]] = last;
          if (runs(ranks_[r]->instructions[ids[i]], taken_)) last = ids[i];
        }
      }
    const size_t lanes = size_t{happens_before::lanes_of_rank} * num_ranks + 1;
    out_.clocks_.resize(out_.spots_.size());
    out_.arrival_.resize(size_t{num_collectives} * num_ranks);
    out_.first_.assign(lanes * out_.num_async_, none);
    heard_.assign(lanes, {});
    taken_over_.assign(lanes * lanes, 0);
  }

  template <class F>
  void for_each_wait(node n, F f) const {
    const auto waits_of = [&](uint32_t rank, uint32_t id) {
      for (uint32_t on : ranks_[rank]->instructions[id].after)
        if (runs(ranks_[rank]->instructions[on], taken_)) f(node_of(rank, on));
    };
    if (const uint32_t last = previous_[index(n)]; last != none) f(node_of(n.rank, last));
    if (at(n).lane != lane::fabric) return waits_of(n.rank, n.id);
    for (uint32_t r = 0; r < ranks_.size(); ++r)
      waits_of(r, ranks_[r]->lanes[static_cast<size_t>(lane::fabric)][at(n).sequence]);
  }

  // Depth first along waits, without recursion: plans are deep.
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
    const auto name = [&](node n) { return "rank " + std::to_string(n.rank) + " " + ranks_[n.rank]->describe(n.id); };
    size_t i = 0;
    while (index(path[i]) != index(again)) ++i;
    std::string text = "the plan never ends: " + name(again);
    const size_t members = path.size() - i;
    for (size_t k = 1; k < std::min(members, names_max); ++k) text += " waits for " + name(path[i + k]) + ", which";
    if (members > names_max) text += " waits for " + std::to_string(members - names_max) + " more, the last of which";
    return core::fail(core::error_kind::bug, text + " waits for " + name(again));
  }

  static void merge(happens_before::clock& to, const happens_before::clock& from) {
    for (uint32_t l = 0; l < happens_before::num_serial; ++l) to.ended[l] = std::max(to.ended[l], from.ended[l]);
    to.collectives = std::max(to.collectives, from.collectives);
  }
  // Instructions of `rank` that had ended before `n` started.
  [[nodiscard]] const happens_before::clock& known(node n, uint32_t rank) const {
    return at(n).lane == lane::fabric ? out_.arrival_[size_t{at(n).sequence} * out_.num_ranks_ + rank]
                                      : out_.clocks_[index(n)];
  }
  void note(uint32_t lane, uint32_t position, uint32_t async) {
    auto& first = out_.first_[size_t{lane} * out_.num_async_ + async];
    if (first != none) return;
    first = position;
    heard_[lane].push_back({position, async});
  }

  // `n` starts after `on` has ended (or, along a pipelined lane, only started): all that preceded `on` precedes `n`.
  void follow(node n, uint32_t rank, node on, bool ended, happens_before::clock& c) {
    const auto &mine = out_.spots_[index(n)], &other = out_.spots_[index(on)];
    merge(c, known(on, rank));
    if (ended && other.async != none) note(mine.lane, mine.position, other.async);
    if (ended && other.async == none) {
      auto& e = c.ended[happens_before::serial_of(at(on).lane)];
      e = std::max(e, other.position + 1);
    }
    if (ended && at(on).lane == lane::fabric) c.collectives = std::max(c.collectives, at(on).sequence + 1);
    if (mine.lane == other.lane) return;
    const auto& heard = heard_[other.lane];
    auto& next = taken_over_[size_t{mine.lane} * heard_.size() + other.lane];
    for (; next < heard.size() && heard[next].position <= other.position; ++next)
      note(mine.lane, mine.position, heard[next].async);
  }

  void reach(node n) {
    const bool pipelined = out_.spots_[index(n)].async != none;
    const bool is_collective = at(n).lane == lane::fabric;
    uint32_t collectives = 0;
    for (uint32_t r = is_collective ? 0 : n.rank; r < (is_collective ? out_.num_ranks_ : n.rank + 1); ++r) {
      const uint32_t id = is_collective ? ranks_[r]->lanes[static_cast<size_t>(lane::fabric)][at(n).sequence] : n.id;
      happens_before::clock c;
      if (const uint32_t last = previous_[index(n)]; last != none) follow(n, r, node_of(n.rank, last), !pipelined, c);
      for (uint32_t on : ranks_[r]->instructions[id].after)
        if (runs(ranks_[r]->instructions[on], taken_)) follow(n, r, node_of(r, on), true, c);
      if (is_collective)
        out_.arrival_[size_t{at(n).sequence} * out_.num_ranks_ + r] = c;
      else
        out_.clocks_[index(n)] = c;
      collectives = std::max(collectives, c.collectives);
    }
    if (!is_collective) return;
    for (uint32_t r = 0; r < out_.num_ranks_; ++r)
      out_.arrival_[size_t{at(n).sequence} * out_.num_ranks_ + r].collectives = collectives;
  }

  struct news {
    uint32_t position, async;
  };

  rank_plans ranks_;
  branch taken_;
  happens_before out_;
  std::vector<uint32_t> fabric_;    // [sequence]: id on rank 0
  std::vector<uint32_t> previous_;  // [instruction]: the one before in its lane that runs
  std::vector<node> order_;
  std::vector<std::vector<news>> heard_;  // [lane]: ended instructions of pipelined lanes, by position
  std::vector<size_t> taken_over_;        // [lane * lanes + other]: how much of other's news the lane has
};

core::result<happens_before> happens_before::build(rank_plans ranks, branch taken) {
  return order_builder(ranks, taken).run();
}

bool happens_before::before(uint32_t ra, uint32_t a, uint32_t rb, uint32_t b) const {
  const spot &x = at(ra, a), &y = at(rb, b);
  if (x.async != none) return first_[size_t{y.lane} * num_async_ + x.async] <= y.position;
  const uint32_t serial = x.lane % lanes_of_rank - 1;
  if (y.lane == fabric()) return arrival_[size_t{y.position} * num_ranks_ + ra].ended[serial] > x.position;
  const clock& c = clocks_[base_[rb] + b];
  if (ra == rb) return c.ended[serial] > x.position;
  return c.collectives > 0 && arrival_[size_t{c.collectives - 1} * num_ranks_ + ra].ended[serial] > x.position;
}

}  // namespace troupe::plan
