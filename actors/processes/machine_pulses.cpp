#include "actors/processes/machine_pulses.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "core/byte_stream.hpp"

namespace troupe::actors {
namespace {

/// Largest number of bytes of the text that describes a rank's lanes in messages; longer texts are truncated.
constexpr size_t sentence_bytes = 960;

struct told_pulse {  ///< the pulse of one rank as a message between machines carries it
  uint32_t rank = 0, doing = 0;
  uint64_t run = 0, num_ended = 0;
  int64_t longest_work_ns = 0;
  std::string sentence;
};
void fields(auto& f, told_pulse& x) { f(x.rank, x.doing, x.run, x.num_ended, x.longest_work_ns, x.sentence); }

told_pulse told(const pulse_board& board, const std::vector<pulse>& all, uint32_t rank) {
  const pulse& p = all[rank];
  return {rank,        static_cast<uint32_t>(p.doing), p.run,
          p.num_ended, p.longest_work.count(),         board.explained(rank).substr(0, sentence_bytes)};
}

}  // namespace

// The pulse (progress) of one rank in shared memory. A reader may see fields of two different writes, which is harmless
// for the detection of stalls and for readers of the description.
struct alignas(64) machine_pulses::shown {
  std::atomic<uint64_t> run, num_ended;
  std::atomic<int64_t> longest_work_ns;
  std::atomic<uint32_t> doing;
  /// description of the rank's lanes; a 0 byte marks its end unless it fills the array
  std::array<std::atomic<char>, sentence_bytes> sentence;

  [[nodiscard]] std::string text() const {
    std::string out;
    for (const auto& c : sentence) {
      const char one = c.load(std::memory_order_relaxed);
      if (one == 0) break;
      out += one;
    }
    return out;
  }
  void take(const told_pulse& p) {
    num_ended = p.num_ended;
    longest_work_ns = p.longest_work_ns;
    doing = p.doing;
    run = p.run;
    for (size_t i = 0; i < std::min(p.sentence.size() + 1, sentence.size()); ++i)
      sentence[i].store(i < p.sentence.size() ? p.sentence[i] : '\0', std::memory_order_relaxed);
  }
};

uint64_t machine_pulses::bytes_of(uint32_t ranks) { return ranks * sizeof(shown); }

machine_pulses::machine_pulses(std::byte* memory, uint32_t ranks, std::shared_ptr<void> owner)
    : memory_(memory), ranks_(ranks), owner_(std::move(owner)) {}

machine_pulses::shown& machine_pulses::at(uint32_t rank) const { return reinterpret_cast<shown*>(memory_)[rank]; }

void machine_pulses::show_on(pulse_board& board, const std::vector<bool>& here) const {
  for (uint32_t r = 0; r < ranks_; ++r) {
    if (here[r]) continue;
    const shown* const one = &at(r);
    board.show(r, [one, keep = owner_] {
      return pulse{one->run.load(), one->num_ended.load(), static_cast<activity>(one->doing.load()),
                   std::chrono::nanoseconds(one->longest_work_ns.load())};
    });
    board.explain(r, [one, keep = owner_] { return one->text(); });
  }
}

void machine_pulses::write(const pulse_board& board, const std::vector<bool>& here) {
  const auto all = board.look();
  for (uint32_t r = 0; r < ranks_; ++r)
    if (here[r]) at(r).take(told(board, all, r));
}

std::vector<std::string> machine_pulses::notes_of(const pulse_board& board, const std::vector<bool>& here,
                                                  size_t bytes_max) {
  std::vector<std::string> out;
  const auto all = board.look();
  std::vector<told_pulse> part;
  size_t bytes = 0;
  for (uint32_t r = 0; r < here.size(); ++r) {
    if (!here[r]) continue;
    auto one = told(board, all, r);
    const size_t more = core::as_bytes(one).size();
    if (bytes + more + sizeof(uint64_t) > bytes_max && !part.empty()) {
      out.push_back(core::as_bytes(std::exchange(part, {})));
      bytes = 0;
    }
    bytes += more;
    part.push_back(std::move(one));
  }
  if (!part.empty()) out.push_back(core::as_bytes(part));
  return out;
}

void machine_pulses::hear(std::string_view note) {
  const auto all = core::from_bytes<std::vector<told_pulse>>(note);
  if (!all) return;
  for (const auto& p : *all)
    if (p.rank < ranks_ && p.doing <= static_cast<uint32_t>(activity::asking)) at(p.rank).take(p);
}

}  // namespace troupe::actors
