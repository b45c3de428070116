#include "actors/memory/ledger.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Device.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>

#include "actors/memory/block_heap.hpp"

namespace troupe::actors {
namespace {

struct account {
  std::atomic<uint64_t> current{0}, peak{0};

  void add(uint64_t n) {
    const uint64_t now = current.fetch_add(n, std::memory_order_relaxed) + n;
    uint64_t before = peak.load(std::memory_order_relaxed);
    while (now > before && !peak.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
    }
  }
  void begin() { peak.store(current.load()); }
};
// [owner]: accounts of host memory, and of the memory of devices
account accounts[ledger_owners_max], device_accounts[ledger_owners_max];

account& account_of(counted_memory memory, uint32_t owner) {
  return memory == counted_memory::device ? device_accounts[owner] : accounts[owner];
}

/// The blocks of device memory that Torch has allocated for the streams of owners.
struct device_book {
  struct block {
    uint64_t bytes;
    uint32_t owner;
  };
  std::mutex lock;
  std::unordered_map<const void*, uint32_t> owners;  // owner of each stream
  std::unordered_map<const void*, block> blocks;     // allocated blocks, by address
};

device_book& book_of_devices() {
  static auto* const kept = new device_book;  // never freed, because Torch may free blocks after main
  return *kept;
}

// Smallest block that comes from an owner's heap. A sanitizer build allocates every block by itself, so that the
// sanitizer checks each.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t heap_bytes_from = UINT64_MAX;
#else
constexpr uint64_t heap_bytes_from = large_block_bytes;
#endif

block_heap& heap_of(uint32_t owner) {
  // Heaps of all owners; never destroyed, because blocks may be freed after all other objects are destroyed.
  static auto* const all = new std::array<block_heap, ledger_owners_max>;
  return (*all)[owner];
}

// Owner for whom this thread's allocations are counted; ledger_owners_max: none.
thread_local uint32_t owner_of_thread = ledger_owners_max;

// Size of the header in front of every block, which stores the owner; a multiple of 64 bytes keeps the data aligned as
// ATen's own allocator aligns.
constexpr size_t header_bytes = 64;
struct header {
  uint64_t bytes;
  uint32_t owner;
  bool in_heap;  // true: the block was allocated from the owner's block_heap
};

// Frees the block whose data begins at `data`; finds everything else in the header, because ATen's deleters receive
// only this pointer.
void give_back(void* data) {
  if (data == nullptr) return;
  void* block = static_cast<std::byte*>(data) - header_bytes;
  auto* h = static_cast<header*>(block);
  if (h->owner < ledger_owners_max) accounts[h->owner].current.fetch_sub(h->bytes, std::memory_order_relaxed);
  if (h->in_heap)
    heap_of(h->owner).free(block);
  else
    std::free(block);
}

class counting_allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t n) override {
    if (n == 0) return {nullptr, nullptr, &give_back, c10::Device(c10::kCPU)};
    void* block = nullptr;
    const bool in_heap = n >= heap_bytes_from && owner_of_thread < ledger_owners_max;
    if (in_heap)
      block = heap_of(owner_of_thread).allocate(n + header_bytes);
    else if (::posix_memalign(&block, header_bytes, n + header_bytes) != 0)
      block = nullptr;
    if (block == nullptr) throw std::bad_alloc();
    new (block) header{n, owner_of_thread, in_heap};
    if (owner_of_thread < ledger_owners_max) accounts[owner_of_thread].add(n);
    void* data = static_cast<std::byte*>(block) + header_bytes;
    return {data, data, &give_back, c10::Device(c10::kCPU)};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t n) const override { std::memcpy(to, from, n); }
};

std::mutex mutex;
int scopes = 0;
bool taken[ledger_owners_max - 1] = {};
c10::Allocator* before = nullptr;
// Priority at which the ledger's allocator is installed and removed: Torch's registry replaces an allocator only by one
// of at least its priority.
constexpr uint8_t priority = 100;

counting_allocator& ours() {
  static counting_allocator a;  // not destroyed before the blocks that refer to its deleter
  return a;
}

}  // namespace

void attribute_allocations(uint32_t owner) { owner_of_thread = owner; }

void attribute_stream(const void* stream, uint32_t owner) {
  device_book& book = book_of_devices();
  const std::lock_guard guard(book.lock);
  book.owners[stream] = owner;
}

void forget_stream(const void* stream) {
  device_book& book = book_of_devices();
  const std::lock_guard guard(book.lock);
  book.owners.erase(stream);
}

void enter_block(const void* at, uint64_t bytes, const void* stream) {
  device_book& book = book_of_devices();
  const std::lock_guard guard(book.lock);
  const auto owner = book.owners.find(stream);
  if (owner == book.owners.end()) return;
  book.blocks[at] = {bytes, owner->second};
  device_accounts[owner->second].add(bytes);
}

void remove_block(const void* at) {
  device_book& book = book_of_devices();
  const std::lock_guard guard(book.lock);
  const auto found = book.blocks.find(at);
  if (found == book.blocks.end()) return;
  device_accounts[found->second.owner].current.fetch_sub(found->second.bytes, std::memory_order_relaxed);
  book.blocks.erase(found);
}

allocation_ledger::allocation_ledger(uint32_t ranks, counted_memory memory) : memory_(memory) {
  const std::lock_guard lock(mutex);
  for (uint32_t o = 0; o + 1 < ledger_owners_max && owners_.size() < ranks; ++o) {
    if (taken[o]) continue;
    taken[o] = true;
    account_of(memory, o).begin();
    heap_of(o).keep();
    owners_.push_back(o);
  }
  if (scopes++ > 0) return;
  before = c10::GetAllocator(c10::DeviceType::CPU);
  for (account* const all : {accounts, device_accounts}) all[ledger_owners_max - 1].begin();
  c10::SetAllocator(c10::DeviceType::CPU, &ours(), priority);
}

allocation_ledger::~allocation_ledger() {
  const std::lock_guard lock(mutex);
  for (const uint32_t o : owners_) {
    heap_of(o).give_up();
    taken[o] = false;
  }
  if (--scopes == 0) c10::SetAllocator(c10::DeviceType::CPU, before, priority);
}

uint64_t allocation_ledger::peak_bytes(uint32_t owner) const { return account_of(memory_, owner).peak.load(); }
uint64_t allocation_ledger::current_bytes(uint32_t owner) const { return account_of(memory_, owner).current.load(); }

}  // namespace troupe::actors
