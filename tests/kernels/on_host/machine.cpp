#include "tests/kernels/on_host/machine.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/on_host/language.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef __x86_64__
#error "a fiber's registers are saved for x86-64 alone"
#endif

// void troupe_change_stack(void** left, void* entered): saves the callee-saved registers on the current stack, stores
// that stack's pointer in `*left`, and continues on the stack `entered`.
asm(R"(
  .text
  .p2align 4
  .type troupe_change_stack, @function
troupe_change_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size troupe_change_stack, .-troupe_change_stack
)");
extern "C" void troupe_change_stack(void** left, void* entered) __attribute__((visibility("hidden")));

namespace troupe::cuda_on_host {
namespace {

constexpr size_t stack_bytes = size_t{128} << 10, page_bytes = 4096;
constexpr int saved_registers = 6;
constexpr unsigned block_threads_max = 1024;
constexpr size_t shared_bytes_max = size_t{48} << 10;  ///< limit of dynamic shared memory for a kernel that has not
                                                       ///< requested a larger one

/// The saved pointer and the bounds of a stack that is not running.
struct context {
  void* at = nullptr;
  const void* bottom = nullptr;
  size_t bytes = 0;
  void* fake_stack = nullptr;  ///< AddressSanitizer's fake stack of this context
};

void start_change(context& left, const context& entered) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&left.fake_stack, entered.bottom, entered.bytes);
#else
  (void)left, (void)entered;
#endif
}
void finish_change(const context& entered) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(entered.fake_stack, nullptr, nullptr);
#else
  (void)entered;
#endif
}

/// Switches from the stack `left` to the stack `entered`; returns when another stack switches back to `left`.
void change(context& left, const context& entered) {
  start_change(left, entered);
  troupe_change_stack(&left.at, entered.at);
  finish_change(left);
}

/// A stack that runs threads of a block one after the other, and that can be suspended in the middle of a thread.
class fiber : public context {
 public:
  explicit fiber(void (*entry)()) : entry_(entry) {
    memory_ = ::mmap(nullptr, page_bytes + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    ::mprotect(memory_, page_bytes, PROT_NONE);
    bottom = static_cast<std::byte*>(memory_) + page_bytes;
    bytes = stack_bytes;
    restart();
  }
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  ~fiber() { ::munmap(memory_, page_bytes + stack_bytes); }

  /// Resets the stack, so that its next run begins at the entry function.
  void restart() {
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(bottom, bytes);
#endif
    void** top = reinterpret_cast<void**>(static_cast<std::byte*>(memory_) + page_bytes + stack_bytes);
    *--top = nullptr;  // return address of the entry function, which never returns
    *--top = reinterpret_cast<void*>(entry_);
    for (int r = 0; r < saved_registers; ++r) *--top = nullptr;
    at = top;
    fake_stack = nullptr;
  }

  unsigned thread = 0;

 private:
  void (*entry_)();
  void* memory_ = nullptr;
};

/// Lanes of a warp that wait for each other at a shuffle; `mask` identifies the group of lanes.
struct lane_group {
  unsigned mask = 0, arrived = 0;
  const char* word = nullptr;
  unsigned turn = 0;  ///< number of the current shuffle; even and odd ones use separate rows, so that the previous
                      ///< results stay readable
  uint64_t brought[2][warp_lanes] = {};
  std::vector<fiber*> waiting;
};

uint64_t seed_asked_for() {
  const char* const asked = std::getenv("TROUPE_SEED");
  return asked == nullptr ? 1 : std::strtoull(asked, nullptr, 10);
}

/// The only simulated device: the random order of threads, its fibers, and the block that runs.
class machine {
 public:
  void order_by(uint64_t seed) { random_.seed(seed); }

  void run(const launch& how, const std::function<void()>& thread);
  void sync_block();
  const uint64_t* sync_lanes(unsigned mask, const char* word, uint64_t brought);
  /// Ends the launch with the concatenation of `why` as its error; the current thread never continues, so its
  /// destructors do not run.
  [[noreturn]] void refuse(std::initializer_list<const char*> why);
  void work();

  [[nodiscard]] unsigned lane() const { return current_->thread % warp_lanes; }
  [[nodiscard]] std::byte* dynamic_shared() { return shared_.get(); }

  std::mutex one_launch;
  cudaError_t launch_error = cudaSuccess;
  std::string failure;   ///< error of a kernel, or empty if there is none
  std::string reported;  ///< the error text that was returned last, kept alive for the caller
  std::vector<cudaStream_t> streams;

 private:
  void run_block(unsigned block);
  void enter_thread(fiber& f);
  bool takes_new_thread();
  fiber* next_ready();
  void leave_current();
  [[nodiscard]] std::string stuck() const;

  std::mt19937_64 random_{seed_asked_for()};
  const launch* how_ = nullptr;
  const std::function<void()>* thread_ = nullptr;
  std::unique_ptr<std::byte, void (*)(void*)> shared_{nullptr, std::free};

  context main_;
  std::vector<std::unique_ptr<fiber>> fibers_;
  std::vector<fiber*> idle_, ready_, at_barrier_;
  fiber* current_ = nullptr;
  std::vector<unsigned> order_;  ///< [position]; the thread that starts at this position, a random permutation of the
                                 ///< block
  size_t begun_ = 0, ended_ = 0;
  std::vector<std::deque<lane_group>> lane_groups_;  ///< [warp]; groups of lanes that wait for each other at a shuffle
};

machine& device() {
  static machine one;
  return one;
}

void work_on_device() {
  finish_change({});
  device().work();
}

/// Returns the bounds of the operating system's stack of the calling thread.
context own_stack() {
  thread_local const context known = [] {
    context out;
    pthread_attr_t attributes;
    void* bottom = nullptr;
    if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
      ::pthread_attr_getstack(&attributes, &bottom, &out.bytes);
      ::pthread_attr_destroy(&attributes);
    }
    out.bottom = bottom;
    return out;
  }();
  return known;
}

uint3 place_in(unsigned index, const dim3& sizes) {
  return {index % sizes.x, index / sizes.x % sizes.y, index / sizes.x / sizes.y};
}

void machine::run(const launch& how, const std::function<void()>& thread) {
  how_ = &how;
  thread_ = &thread;
  gridDim = how.grid;
  blockDim = how.block;
  main_ = own_stack();
  order_.resize(how.block.count());
  std::iota(order_.begin(), order_.end(), 0U);
  lane_groups_.assign((how.block.count() + warp_lanes - 1) / warp_lanes, {});
  shared_.reset(static_cast<std::byte*>(std::malloc(how.shared_bytes)));
  std::vector<unsigned> blocks(how.grid.count());
  std::iota(blocks.begin(), blocks.end(), 0U);
  std::shuffle(blocks.begin(), blocks.end(), random_);
  for (const unsigned block : blocks)
    if (failure.empty()) run_block(block);
  shared_.reset();
}

void machine::run_block(unsigned block) {
  blockIdx = place_in(block, how_->grid);
  std::memset(shared_.get(), 0xFF, how_->shared_bytes);
  std::shuffle(order_.begin(), order_.end(), random_);
  begun_ = ended_ = 0;
  while (ended_ < order_.size() && failure.empty()) {
    fiber* next = takes_new_thread() ? nullptr : next_ready();
    if (next == nullptr && begun_ == order_.size()) {
      failure = stuck();
      break;
    }
    if (next == nullptr) {  // starts a new thread on an idle fiber
      if (idle_.empty()) idle_.push_back(fibers_.emplace_back(std::make_unique<fiber>(work_on_device)).get());
      next = idle_.back();
      idle_.pop_back();
    }
    enter_thread(*next);
    change(main_, *next);
  }
  if (failure.empty()) return;
  idle_.clear();  // threads that cannot end are discarded
  ready_.clear();
  at_barrier_.clear();
  for (const auto& f : fibers_) {
    f->restart();
    idle_.push_back(f.get());
  }
}

/// Draws at random whether a thread that has not begun runs next, or one of the threads that are ready.
bool machine::takes_new_thread() {
  return begun_ < order_.size() && (ready_.empty() || random_() % (ready_.size() + 1) == 0);
}

/// Returns a random thread that can continue, or null if there is none.
fiber* machine::next_ready() {
  if (ready_.empty()) return nullptr;
  std::swap(ready_[random_() % ready_.size()], ready_.back());
  fiber* const out = ready_.back();
  ready_.pop_back();
  return out;
}

void machine::enter_thread(fiber& f) {
  current_ = &f;
  threadIdx = place_in(f.thread, how_->block);
}

/// Runs one thread of the block to its end, then the next that has not begun; switches to the main stack if a suspended
/// thread is to continue. Never returns.
void machine::work() {
  for (fiber& self = *current_;;) {
    self.thread = order_[begun_++];
    enter_thread(self);
    (*thread_)();
    ++ended_;
    if (takes_new_thread()) continue;
    idle_.push_back(&self);
    change(self, main_);
  }
}

/// Suspends the current thread and runs another one; switches to the main stack only if no thread is ready.
void machine::leave_current() {
  fiber& self = *current_;
  if (fiber* const next = takes_new_thread() ? nullptr : next_ready(); next == &self) {
    return;
  } else if (next != nullptr) {
    enter_thread(*next);
    change(self, *next);
  } else {
    change(self, main_);
  }
}

void machine::sync_block() {
  fiber& self = *current_;
  at_barrier_.push_back(&self);
  if (at_barrier_.size() == order_.size()) {
    ready_.insert(ready_.end(), at_barrier_.begin(), at_barrier_.end());
    at_barrier_.clear();
  }
  leave_current();
}

const uint64_t* machine::sync_lanes(unsigned mask, const char* word, uint64_t brought) {
  fiber& self = *current_;
  const unsigned first = self.thread / warp_lanes * warp_lanes,
                 lanes = std::min<size_t>(warp_lanes, order_.size() - first);
  if ((mask >> lane() & 1U) == 0) refuse({word, ": the mask does not name the calling lane"});
  if (lanes < warp_lanes && mask >> lanes != 0) refuse({word, ": the mask names lanes that the block lacks"});
  auto& all = lane_groups_[first / warp_lanes];
  const auto found = std::find_if(all.begin(), all.end(), [&](const lane_group& m) { return m.mask == mask; });
  lane_group& group = found != all.end() ? *found : all.emplace_back(lane_group{.mask = mask});
  if (group.arrived == 0) group.word = word;
  if (std::strcmp(group.word, word) != 0) refuse({"lanes of one mask call ", group.word, " and ", word});
  uint64_t* const row = group.brought[group.turn % 2];
  row[lane()] = brought;
  group.waiting.push_back(&self);
  if (++group.arrived == static_cast<unsigned>(std::popcount(mask))) {
    group.arrived = 0;
    ++group.turn;
    ready_.insert(ready_.end(), group.waiting.begin(), group.waiting.end());
    group.waiting.clear();
  }
  leave_current();
  return row;
}

void machine::refuse(std::initializer_list<const char*> why) {
  failure = fmt::format("block {}, thread {}: ", blockIdx.x, current_->thread);
  for (const char* part : why) failure += part;
  change(*current_, main_);
  std::abort();  // not reached, because no stack switches back to this thread
}

/// Returns an error text about the threads that can never continue, and the operation that each of them waits for.
std::string machine::stuck() const {
  std::string out = fmt::format("block {}: ", blockIdx.x);
  if (!at_barrier_.empty())
    return fmt::format("{}{} of {} threads wait at __syncthreads, which the others never reach", out,
                       at_barrier_.size(), order_.size());
  for (const auto& warp : lane_groups_)
    for (const auto& m : warp)
      if (m.arrived != 0)
        return fmt::format("{}{} of {} lanes wait at {}, which the others never reach", out, m.arrived,
                           std::popcount(m.mask), m.word);
  return out + "no thread can go on";
}

}  // namespace

void order_by(uint64_t seed) { device().order_by(seed); }

void run(const launch& how, const std::function<void()>& thread) {
  machine& on = device();
  const std::lock_guard one(on.one_launch);
  const uint64_t threads = how.block.count();
  if (how.grid.count() == 0 || threads == 0 || threads > block_threads_max)
    on.launch_error = cudaErrorInvalidConfiguration;
  else if (how.shared_bytes > shared_bytes_max)
    on.launch_error = cudaErrorInvalidValue;
  else if (!knows(how.on))
    on.launch_error = cudaErrorInvalidResourceHandle;
  else if (on.failure.empty())
    on.run(how, thread);
}

void sync_block() { device().sync_block(); }
const uint64_t* sync_lanes(unsigned mask, const char* word, uint64_t brought) {
  return device().sync_lanes(mask, word, brought);
}
void refuse(const char* why) { device().refuse({why}); }
unsigned lane() { return device().lane(); }
std::byte* dynamic_shared() { return device().dynamic_shared(); }

bool knows(cudaStream_t on) {
  const auto& all = device().streams;
  return std::find(all.begin(), all.end(), on) != all.end();
}

}  // namespace troupe::cuda_on_host

using troupe::cuda_on_host::device;

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  constexpr size_t alignment = 256;
  return ::posix_memalign(memory, alignment, bytes) == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t on) {
  return troupe::cuda_on_host::knows(on) ? cudaMalloc(memory, bytes) : cudaErrorInvalidResourceHandle;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t on) {
  return troupe::cuda_on_host::knows(on) ? cudaFree(memory) : cudaErrorInvalidResourceHandle;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int /*device*/) {
  *pool = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t /*pool*/, cudaMemPoolAttr /*attribute*/, void* /*value*/) {
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/, cudaStream_t on) {
  if (!troupe::cuda_on_host::knows(on)) return device().launch_error = cudaErrorInvalidResourceHandle;
  if (bytes != 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t on) {
  if (!troupe::cuda_on_host::knows(on)) return device().launch_error = cudaErrorInvalidResourceHandle;
  if (bytes != 0) std::memset(to, byte, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned /*flags*/) {
  *out = reinterpret_cast<cudaStream_t>(new char);
  device().streams.push_back(*out);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t on) {
  if (std::erase(device().streams, on) == 0) return cudaErrorInvalidResourceHandle;
  delete reinterpret_cast<char*>(on);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t on) {
  if (!troupe::cuda_on_host::knows(on)) return cudaErrorInvalidResourceHandle;
  auto& d = device();
  d.reported = std::exchange(d.failure, {});
  return d.reported.empty() ? cudaSuccess : cudaErrorLaunchFailure;
}

cudaError_t cudaGetLastError() { return std::exchange(device().launch_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorLaunchFailure:
      return device().reported.c_str();
  }
  return "unrecognized error code";
}
