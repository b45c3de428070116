#include "plan/place/place.hpp"

#include <algorithm>
#include <utility>

#include "plan/layout/communicators.hpp"
#include "plan/place/arena.hpp"
#include "plan/place/memory.hpp"

namespace troupe::plan {
namespace {

class placer {
 public:
  placer(draft& d, rank_plan& p) : d_(d), p_(p), number_(d.handles(), none), slot_(d.num_buffers(), none) {}

  void run() {
    p_.num_collectives.assign(p_.layout->communicators.size(), 0);
    give_numbers();
    sort_lifetimes();
    for (handle x = d_.first(); x != none; x = d_.next(x))
      if (!d_.is_mark(x)) place(x);
    for (uint32_t k = 0; k < num_pools; ++k) p_.pool_bytes[k] = arenas_[k].peak_bytes();
    p_.bucket_buffer = d_.bucket_buffers;
    for (auto& b : p_.bucket_buffer) b = slot_of(b);
    p_.bucket_window = d_.bucket_windows;
    for (auto& b : p_.bucket_window) b = slot_of(b);
  }

 private:
  void give_numbers() {
    uint32_t n = 0, of_lane[num_lanes] = {};
    for (handle x = d_.first(); x != none; x = d_.next(x)) {
      if (d_.is_mark(x)) continue;
      number_[x] = n++;
      ++of_lane[static_cast<size_t>(lane_of(d_.at(x).kind))];
    }
    p_.instructions.reserve(n);
    p_.lanes.resize(num_lanes);
    for (uint32_t l = 0; l < num_lanes; ++l) p_.lanes[l].reserve(of_lane[l]);
    named_by_.assign(n, none);
  }
  [[nodiscard]] uint32_t number_of(handle x) const { return x == none ? none : number_[x]; }
  [[nodiscard]] uint32_t slot_of(uint32_t buffer) const {
    return buffer == none ? none : slot_[d_.standing_buffer(buffer)];
  }

  // Builds chains of buffers by the instruction that opens them, and by the one from which on their bytes may be
  // reused.
  void sort_lifetimes() {
    const uint32_t n = d_.num_buffers();
    opens_.assign(number_.size(), none);
    frees_ = opens_;
    next_opened_.assign(n, none);
    next_freed_ = next_opened_;
    last_.assign(n, none);
    p_.buffers.reserve(n);
    for (uint32_t b = n; b-- > 0;) {
      if (d_.standing_buffer(b) != b) continue;
      const lifetime& life = d_.buffer(b);
      last_[b] = number_of(d_.standing(life.last));
      next_opened_[b] = std::exchange(opens_[life.first], b);
      if (const handle from = d_.standing(life.free_from); from != none)
        next_freed_[b] = std::exchange(frees_[from], b);
    }
    for (const auto& [b, reader] : d_.readers()) {
      uint32_t& last = last_[d_.standing_buffer(b)];
      const uint32_t told = number_of(d_.standing(reader));
      last = last == none ? told : std::max(last, told);
    }
  }

  void place(handle h) {
    instruction& x = p_.instructions.emplace_back();
    static_cast<operation&>(x) = d_.at(h);
    x.id = number_[h];
    x.lane = lane_of(x.kind);
    after_.clear();
    d_.for_each_before(h, [&](handle on) { wait_for(x, number_of(on)); });
    for (uint32_t b = frees_[h]; b != none; b = next_freed_[b])
      // A buffer without a slot is not open yet: either `h` itself opens it, and the loop below frees it, or a faulty
      // pass has put its end before its beginning.
      if (slot_[b] != none) give_back(b);
    for (uint32_t b = opens_[h]; b != none; b = next_opened_[b]) {
      open(b, x);
      if (d_.buffer(b).free_from == h) give_back(b);
    }
    std::sort(after_.begin(), after_.end());
    x.after.assign(after_.begin(), after_.end());
    x.buffer = slot_of(x.buffer);
    x.compressed = slot_of(x.compressed);
    x.staged = slot_of(x.staged);
    x.input = slot_of(x.input);
    x.output = slot_of(x.output);
    if (x.lane == lane::fabric) {
      x.communicator = communicator_of(*p_.layout, p_.rank, x);
      x.sequence = p_.num_collectives[x.communicator]++;
    }
    p_.lanes[static_cast<size_t>(x.lane)].push_back(x.id);
    count_live(x);
  }
  // Adds the dependency of `x` on instruction `on`; a repeated call adds nothing.
  void wait_for(const instruction& x, uint32_t on) {
    if (on == none || named_by_[on] == x.id) return;
    named_by_[on] = x.id;
    after_.push_back(on);
  }
  // Opens a buffer, which waits for the last users of the bytes that it reuses.
  void open(uint32_t b, const instruction& x) {
    const lifetime& life = d_.buffer(b);
    const auto lease = arenas_[static_cast<size_t>(life.pool)].take(life.bytes);
    for (const uint32_t reader : lease.after) wait_for(x, reader);
    slot_[b] = static_cast<uint32_t>(p_.buffers.size());
    p_.buffers.push_back({life.pool, lease.offset, life.bytes, life.subject, x.id, last_[b]});
  }
  void give_back(uint32_t b) {
    arenas_[static_cast<size_t>(d_.buffer(b).pool)].give_back(p_.buffers[slot_[b]].offset, last_[b]);
  }
  void count_live(const instruction& x) {
    if (x.kind == kind::gather) live_elements_ += p_.layout->gather_sets[x.subject].numel;
    if (x.kind == kind::release) live_elements_ -= p_.layout->gather_sets[x.subject].numel;
    p_.peak_live_elements = std::max(p_.peak_live_elements, live_elements_);
  }

  draft& d_;
  rank_plan& p_;
  arena arenas_[num_pools];
  std::vector<uint32_t> number_;         // [handle]: number of the instruction in the plan
  std::vector<uint32_t> slot_;           // [buffer]: index of the buffer in the plan
  std::vector<uint32_t> opens_, frees_;  // [handle]: first buffer that the instruction opens, and first that it frees
  std::vector<uint32_t> next_opened_, next_freed_;  // [buffer]: next buffer that the instruction opens, or frees
  std::vector<uint32_t> last_;                      // [buffer]: last user of the buffer
  std::vector<uint32_t> named_by_;                  // [instruction]: the latest instruction that waits for it, so far
  std::vector<uint32_t> after_;                     // dependencies of the instruction that is being placed
  uint64_t live_elements_ = 0;
};

}  // namespace

void place(draft d, rank_plan& p) {
  placer(d, p).run();
  count_memory(p);
}

}  // namespace troupe::plan
