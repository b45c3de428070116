// Makes the text of a trace of a small pipeline with data parallelism, as `troupe train` writes it, with one planted
// fault. Its clock is a simulation of its own, which shares nothing with the graph that is tested.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe::telemetry {

/// The shape of a job, in microseconds, and what is wrong with it. All factors 1 and all additional times 0: nothing
/// is.
struct made_job {
  uint32_t stages = 1, data = 2, layers = 4, micro = 2, steps = 3;
  uint64_t seed = 1;
  double forward = 1000, backward = 2000, gather = 300, reduce = 400, transfer = 60, load = 20, update = 150;
  double swap_in = 100, snapshot = 0;
  double gap = 2;          ///< time before each start
  double pause = 500;      ///< time between two steps
  double noise = 0.03;     ///< half width of the uniform noise of all times
  int32_t slow_rank = -1;  ///< rank whose computing takes slow_factor times as long
  double slow_factor = 1;
  int32_t slow_stage = -1;
  double stage_factor = 1;
  int32_t slow_boundary = -1;  ///< boundary after this stage, of data rank 0, whose transfers take link_factor times
  int32_t slow_group = -1;     ///< stage whose gathers and reductions take link_factor times as long
  double link_factor = 1;
  double late_batch = 0;  ///< further time of the last load; of rank late_rank alone if that is not -1
  int32_t late_rank = -1;
  double host_gap = 0;    ///< further time before each instruction of the compute lane
  int32_t gap_rank = -1;  ///< rank of host_gap; -1: all
};

class made_trace {
 public:
  explicit made_trace(const made_job& job) : job_(job), random_(job.seed) {
    for (uint32_t r = 0; r < ranks(); ++r) names(r);
    for (uint32_t s = 0; s < job.steps; ++s) {
      make();
      play();
      write(s);
      zero_ += job.pause;
    }
  }

  [[nodiscard]] std::string text() const {
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + events_ + "\n]}\n";
  }

 private:
  enum lane : uint32_t { control, compute, fabric, shard, writer, io };
  static constexpr const char* lane_names[] = {"control", "compute", "fabric", "shard", "writer", "io"};

  struct instruction {
    uint32_t rank = 0, lane = 0, id = 0, stage = 0;
    std::string name, kind;
    std::vector<uint32_t> after;  // indices in all_
    double work = 0, gap = 0;
    int32_t communicator = -1;
    uint32_t sequence = 0;
    uint64_t bytes = 0;
    double start = -1, end = -1;
  };

  [[nodiscard]] uint32_t ranks() const { return job_.stages * job_.data; }

  double noisy(double x) { return x * std::uniform_real_distribution<double>(1 - job_.noise, 1 + job_.noise)(random_); }

  void add_event(const std::string& e) { events_ += (events_.empty() ? "" : ",\n") + e; }

  void names(uint32_t rank) {
    add_event(fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":"rank {}"}}}})", rank, rank));
    for (uint32_t l = 0; l < 6; ++l)
      add_event(fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})", rank, l,
                            lane_names[l]));
  }

  uint32_t add(uint32_t rank, uint32_t lane, const std::string& kind, const std::string& name, double work,
               std::vector<uint32_t> after) {
    instruction x;
    x.rank = rank, x.lane = lane, x.kind = kind, x.name = name;
    x.stage = rank / job_.data;
    x.id = ids_[rank]++;
    x.after = std::move(after);
    x.work = noisy(work);
    x.gap = noisy(job_.gap);
    if (lane == compute || lane == shard) {
      if (int32_t(rank) == job_.slow_rank) x.work *= job_.slow_factor;
    }
    if (lane == compute) {
      if (int32_t(x.stage) == job_.slow_stage) x.work *= job_.stage_factor;
      if (job_.gap_rank < 0 || int32_t(rank) == job_.gap_rank) x.gap += noisy(job_.host_gap);
    }
    all_.push_back(std::move(x));
    return static_cast<uint32_t>(all_.size() - 1);
  }

  // Makes `at` a member of the next collective of a communicator; `slow`: its time is multiplied by link_factor.
  void join(uint32_t at, uint32_t communicator, uint64_t bytes, bool slow) {
    auto& x = all_[at];
    x.communicator = static_cast<int32_t>(communicator);
    x.sequence = sequences_[{x.rank, communicator}]++;
    x.bytes = bytes;
    if (slow) x.work *= job_.link_factor;
  }

  void make() {
    all_.clear(), ids_.assign(ranks(), 0), sequences_.clear();
    for (uint32_t r = 0; r < ranks(); ++r) make_rank(r);
  }

  void make_rank(uint32_t r) {
    const uint32_t stage = r / job_.data, d = r % job_.data;
    const uint32_t group = stage;  // communicator of the stage's data ranks
    const auto boundary = [&](uint32_t s) { return job_.stages + s * job_.data + d; };
    const uint32_t everyone = job_.stages + job_.stages * job_.data;
    const auto is_slow = [&](uint32_t s) { return int32_t(s) == job_.slow_boundary && d == 0; };
    const bool slow_here = int32_t(group) == job_.slow_group;
    std::vector<uint32_t> loads, computed;
    for (uint32_t m = 0; m < job_.micro; ++m) {
      const bool late = m + 1 == job_.micro && (job_.late_rank < 0 || int32_t(r) == job_.late_rank);
      loads.push_back(add(r, control, "load", "load", job_.load + (late ? job_.late_batch : 0), {}));
    }
    for (uint32_t m = 0; m < job_.micro; ++m) {
      std::vector<uint32_t> before{loads[m]};
      if (stage > 0) {
        before.push_back(add(r, fabric, "receive", "receive output", job_.transfer, {}));
        join(before.back(), boundary(stage - 1), 4096, is_slow(stage - 1));
      }
      for (uint32_t l = 0; l < job_.layers; ++l) {
        std::vector<uint32_t> ahead;
        if (computed.size() >= 3) ahead.push_back(computed[computed.size() - 3]);
        const uint32_t g =
            add(r, fabric, "gather", fmt::format("gather block {}", stage * job_.layers + l), job_.gather, ahead);
        join(g, group, 1 << 20, slow_here);
        before.push_back(g);
        computed.push_back(
            add(r, compute, "forward", fmt::format("forward block {}", stage * job_.layers + l), job_.forward, before));
        before.clear();
      }
      if (stage + 1 < job_.stages)
        join(add(r, fabric, "send", "send output", job_.transfer, {computed.back()}), boundary(stage), 4096,
             is_slow(stage));
    }
    std::vector<uint32_t> norms;
    for (uint32_t m = 0; m < job_.micro; ++m) {
      std::vector<uint32_t> before;
      if (stage + 1 < job_.stages) {
        before.push_back(add(r, fabric, "receive", "receive gradient", job_.transfer, {}));
        join(before.back(), boundary(stage), 4096, is_slow(stage));
      }
      for (uint32_t l = job_.layers; l-- > 0;) {
        computed.push_back(add(r, compute, "backward", fmt::format("backward block {}", stage * job_.layers + l),
                               job_.backward, before));
        before.clear();
        if (m + 1 < job_.micro) continue;
        const uint32_t b = add(r, fabric, "reduce", fmt::format("reduce bucket {}", l), job_.reduce, {computed.back()});
        join(b, group, 1 << 20, slow_here);
        norms.push_back(add(r, shard, "norm", fmt::format("norm bucket {}", l), 5, {b}));
      }
      if (stage > 0)
        join(add(r, fabric, "send", "send gradient", job_.transfer, {computed.back()}), boundary(stage - 1), 4096,
             is_slow(stage - 1));
    }
    const uint32_t vote = add(r, fabric, "vote", "vote", 20, norms);
    join(vote, everyone, 64, false);
    std::vector<uint32_t> first{vote, add(r, io, "swap_in", "swap_in states", job_.swap_in, {computed.back()})};
    if (job_.snapshot > 0) first.push_back(add(r, writer, "snapshot", "snapshot block 0", job_.snapshot, {}));
    const uint32_t update = add(r, shard, "update", "update sub-group 0", job_.update, first);
    add(r, io, "swap_out", "swap_out states", job_.swap_in / 10, {update});
  }

  [[nodiscard]] bool is_played(const std::vector<uint32_t>& list) const {
    return std::ranges::all_of(list, [&](uint32_t i) { return all_[i].end >= 0; });
  }

  // Advances all lanes until nothing is left. A lane posts its instructions in order; fabric and io move one at a time.
  void play() {
    std::vector<std::vector<uint32_t>> lanes(ranks() * 6);
    for (uint32_t i = 0; i < all_.size(); ++i) lanes[all_[i].rank * 6 + all_[i].lane].push_back(i);
    std::vector<size_t> next(lanes.size(), 0);
    std::vector<double> free(lanes.size(), 0);
    std::map<std::pair<int32_t, uint32_t>, std::vector<uint32_t>> collectives;
    for (uint32_t i = 0; i < all_.size(); ++i)
      if (all_[i].communicator >= 0) collectives[{all_[i].communicator, all_[i].sequence}].push_back(i);
    for (size_t left = all_.size(); left > 0;) {
      const size_t before = left;
      for (size_t l = 0; l < lanes.size(); ++l)
        for (auto& at = next[l]; at < lanes[l].size(); ++at) {
          auto& x = all_[lanes[l][at]];
          if (!is_played(x.after)) break;
          double ready = x.lane == fabric ? 0 : free[l];
          for (const uint32_t on : x.after) ready = std::max(ready, all_[on].end);
          x.start = ready + x.gap;
          if (x.communicator >= 0) continue;
          x.end = x.start + x.work, free[l] = x.end, --left;
        }
      // The collective that all members have posted first is played first.
      const std::vector<uint32_t>* first = nullptr;
      double first_at = 0;
      for (const auto& [key, members] : collectives) {
        double begin = 0;
        for (const uint32_t i : members) begin = all_[i].start < 0 ? HUGE_VAL : std::max(begin, all_[i].start);
        for (const uint32_t i : members) begin = std::max(begin, all_[i].start < 0 ? HUGE_VAL : 0.0);
        if (all_[members.front()].end >= 0 || !(begin < HUGE_VAL) || (first != nullptr && begin >= first_at)) continue;
        first = &members, first_at = begin;
      }
      if (first != nullptr) {
        double work = 0;
        for (const uint32_t i : *first) first_at = std::max(first_at, free[all_[i].rank * 6 + fabric]);
        for (const uint32_t i : *first) work = std::max(work, all_[i].work);
        for (const uint32_t i : *first) all_[i].end = free[all_[i].rank * 6 + fabric] = first_at + work, --left;
      }
      if (before == left) throw std::runtime_error("the made job stands still");
    }
  }

  void write(uint32_t step) {
    double end = 0;
    for (const auto& x : all_) {
      std::string after;
      for (const uint32_t on : x.after) after += (after.empty() ? "" : ",") + fmt::to_string(all_[on].id);
      add_event(
          fmt::format(R"({{"name":"{}","cat":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},)"
                      R"("dur":{:.3f},"args":{{"step":{},"id":{},"bytes":{},"waited_us":0.0,)"
                      R"("after":[{}]{}{}}}}})",
                      x.name, x.kind, x.rank, x.lane, zero_ + x.start, x.end - x.start, step, x.id, x.bytes, after,
                      x.communicator < 0 ? "" : fmt::format(R"(,"collective":[{},{}])", x.communicator, x.sequence),
                      job_.stages > 1 && x.lane == compute ? fmt::format(R"(,"stage":{})", x.stage) : ""));
      end = std::max(end, x.end);
    }
    zero_ += end;
  }

  made_job job_;
  std::mt19937_64 random_;
  std::vector<instruction> all_;
  std::vector<uint32_t> ids_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> sequences_;
  std::string events_;
  double zero_ = 0;
};

}  // namespace troupe::telemetry
