#include "actors/memory/block_heap.hpp"

#include <algorithm>
#include <new>

#include "core/math.hpp"

namespace troupe::actors {

struct alignas(block_heap::alignment_bytes) block_heap::tag {
  uint64_t bytes;   // size of the block in bytes, this header included
  uint64_t before;  // size in bytes of the block before this one in memory; 0: this is the first
  segment* in;
  bool free;
};

struct block_heap::segment {
  storage::huge_memory memory;

  [[nodiscard]] tag* first() const { return reinterpret_cast<tag*>(memory.data()); }
  [[nodiscard]] bool empty() const { return first()->free && first()->bytes == memory.bytes(); }
  [[nodiscard]] tag* right_of(tag* t) const {
    auto* const at = reinterpret_cast<std::byte*>(t) + t->bytes;
    return at == memory.data() + memory.bytes() ? nullptr : reinterpret_cast<tag*>(at);
  }
};

block_heap::block_heap() = default;
block_heap::~block_heap() = default;

block_heap::tag* block_heap::grow(uint64_t bytes) {
  const uint64_t more = std::clamp(mapped_bytes_ / 4, segment_bytes_min, segment_bytes_max);
  const auto map = [](uint64_t n) {
    return storage::huge_memory::allocate(core::round_up(n, storage::huge_memory::alignment_bytes));
  };
  auto got = map(std::max(bytes, more));
  if (!got && more > bytes) got = map(bytes);
  if (!got) return nullptr;
  auto s = std::make_unique<segment>(std::move(*got));
  mapped_bytes_ += s->memory.bytes();
  tag* const all = new (s->memory.data()) tag{s->memory.bytes(), 0, s.get(), true};
  segments_.push_back(std::move(s));
  free_.emplace(all->bytes, all);
  return all;
}

void* block_heap::allocate(uint64_t bytes) {
  if (bytes > UINT64_MAX / 2) return nullptr;
  const uint64_t whole = core::round_up(bytes, alignment_bytes) + sizeof(tag);
  const std::lock_guard lock(mutex_);
  const auto found = free_.lower_bound({whole, nullptr});
  tag* t = found != free_.end() ? found->second : nullptr;
  if (t == nullptr) {
    drop_empty();  // no free block is large enough: unmaps wholly free mappings, which are too small, too
    t = grow(whole);
    if (t == nullptr) return nullptr;
  }
  free_.erase({t->bytes, t});
  t->free = false;
  if (t->bytes >= whole + 2 * sizeof(tag)) {
    tag* const right = t->in->right_of(t);
    tag* const rest = new (reinterpret_cast<std::byte*>(t) + whole) tag{t->bytes - whole, whole, t->in, true};
    t->bytes = whole;
    if (right != nullptr) right->before = rest->bytes;
    free_.emplace(rest->bytes, rest);
  }
  return t + 1;
}

void block_heap::free(void* block) {
  tag* t = static_cast<tag*>(block) - 1;
  const std::lock_guard lock(mutex_);
  segment& s = *t->in;
  if (tag* const right = s.right_of(t); right != nullptr && right->free) {
    free_.erase({right->bytes, right});
    t->bytes += right->bytes;
  }
  if (t->before > 0)
    if (tag* const left = reinterpret_cast<tag*>(reinterpret_cast<std::byte*>(t) - t->before); left->free) {
      free_.erase({left->bytes, left});
      left->bytes += t->bytes;
      t = left;
    }
  t->free = true;
  if (tag* const right = s.right_of(t); right != nullptr) right->before = t->bytes;
  free_.emplace(t->bytes, t);
  if (!keeps_ && s.empty()) drop_empty();
}

void block_heap::drop_empty() {
  std::erase_if(segments_, [this](const std::unique_ptr<segment>& s) {
    if (!s->empty()) return false;
    free_.erase({s->memory.bytes(), s->first()});
    mapped_bytes_ -= s->memory.bytes();
    return true;
  });
}

void block_heap::keep() {
  const std::lock_guard lock(mutex_);
  keeps_ = true;
}

void block_heap::give_up() {
  const std::lock_guard lock(mutex_);
  keeps_ = false;
  drop_empty();
}

uint64_t block_heap::mapped_bytes() const {
  const std::lock_guard lock(mutex_);
  return mapped_bytes_;
}

}  // namespace troupe::actors
