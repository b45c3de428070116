#include "tests/far/device.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/math.hpp"
#include "device/backend.hpp"
#include "device/cuda/driver.hpp"
#include "device/stream.hpp"
#include "kernels/operations.hpp"
#include "models/layers/attention.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/products.hpp"
#include "tests/far/arena.hpp"
#include "tests/far/counters.hpp"
#include "tests/far/streams.hpp"
#include "tests/far/torch.hpp"

namespace troupe::far {
namespace {

using device::device_kind;

constexpr uint64_t total_bytes = uint64_t{1} << 34;

core::result<uint32_t> count() { return 1; }

const device::properties& facts(uint32_t /*index*/) {
  static const device::properties all{"far", device::cuda::memory_alignment_bytes, total_bytes};
  return all;
}

struct piece {  // one piece of an arena, with its address and size
  side where;
  std::byte* at;
  uint64_t bytes;
  piece(side s, uint64_t n) : where(s), at(take(s, n, filled::zeros)), bytes(n) {}
  ~piece() { give(where, at, bytes); }
  piece(const piece&) = delete;
  piece& operator=(const piece&) = delete;
};

side side_for(device::tier where) {
  if (where == device::tier::device) return side::device;
  return where == device::tier::pinned ? side::pinned : side::pageable;
}

core::result<device::block> allocate(uint32_t /*index*/, device::tier where, uint64_t bytes) {
  const uint64_t size = core::round_up(bytes, device::cuda::memory_alignment_bytes);
  auto made = std::make_shared<piece>(side_for(where), size);
  std::byte* const at = made->at;
  return device::block{std::move(made), at, size, std::nullopt};
}

bool discard(void* /*owner*/) { return false; }

/// Copies bytes on a stream. As with CUDA, the host waits for the copy if one of the two memories is not pinned or the
/// device's.
void copy(void* stream, std::byte* to, const std::byte* from, uint64_t bytes) {
  ++counting().copies;
  if (bytes == 0) return;
  const side source = side_of(from), target = side_of(to);
  if (source != side::device && target == side::device) counting().bytes_up += bytes;
  if (source == side::device && target != side::device) counting().bytes_down += bytes;
  const bool waits = source == side::pageable || target == side::pageable;
  if (waits) ++counting().unpinned;
  if (waits) (void)finish(stream);
  const auto move = [to = for_copy(to), from = for_copy(from), bytes] { std::memmove(to, from, bytes); };
  waits ? move() : ask(stream, move);
}

constexpr device::backend far_backend{.count = count,
                                      .check = [](uint32_t) { return core::result<void>(); },
                                      .properties_of = facts,
                                      .allocate = allocate,
                                      .discard = discard,
                                      .make_stream = [](uint32_t) { return make_stream(); },
                                      .make_current = make_torch_stream,
                                      .copy = copy,
                                      .record = record,
                                      .wait = wait,
                                      .finish = finish,
                                      .is_over = is_over,
                                      .finish_event = finish_event,
                                      .elapsed_ns = elapsed_ns};

/// Queues work on the stream on which the calling thread's kernels run.
void ask_here(std::function<void()> work) {
  ++counting().kernels;
  ask(device::stream::current({device_kind::cuda}).native(), std::move(work));
}

const kernels::operations& on_cpu() { return kernels::operations_of({device_kind::cpu}); }

/// Returns an argument of a kernel with all addresses replaced by those that the device can access.
template <class T>
T reached(const T& x) {
  return x;
}
template <class T>
T* reached(T* at) {
  return reinterpret_cast<T*>(for_device(at, "a kernel"));
}
template <class T>
requires std::is_arithmetic_v<T> std::span<T> reached(std::span<T> x) { return {reached(x.data()), x.size()}; }
kernels::norm_input reached(kernels::norm_input x) {
  x.x = reached(x.x);
  x.weight = reached(x.weight);
  return x;
}
kernels::norm_gradient reached(const kernels::norm_gradient& x) { return {reached(x.dy), reached(x.past)}; }
kernels::norm_rows reached(const kernels::norm_rows& x) { return {reached(x.mean), reached(x.rstd)}; }
kernels::row_groups reached(const kernels::row_groups& x) { return {reached(x.order), reached(x.begin), x.count}; }
kernels::token_heads reached(kernels::token_heads x) {
  x.from = reached(x.from);
  x.to = reached(x.to);
  return x;
}
kernels::rotary_table reached(kernels::rotary_table x) {
  x.cosines = reached(x.cosines);
  x.sines = reached(x.sines);
  x.starts = reached(x.starts);
  return x;
}
template <class Byte>
kernels::attention_operands<Byte> reached(kernels::attention_operands<Byte> x) {
  x.queries = reached(x.queries);
  x.keys = reached(x.keys);
  return x;
}
template <class State>
kernels::optimizer_piece<State> reached(kernels::optimizer_piece<State> x) {
  x.master = reached(x.master);
  for (auto& m : x.moments) m = reached(m);
  x.average = reached(x.average);
  x.gradient = reached(x.gradient);
  x.copy = reached(x.copy);
  return x;
}

template <class State>
std::vector<kernels::piece_update<State>> reached(std::span<const kernels::piece_update<State>> all) {
  std::vector<kernels::piece_update<State>> out(all.begin(), all.end());
  for (auto& x : out) x.piece = reached(x.piece);
  return out;
}
std::vector<kernels::squared_elements> reached(std::span<const kernels::squared_elements> all) {
  std::vector<kernels::squared_elements> out;
  for (const auto& x : all) out.push_back({reached(x.values), x.count, reached(x.out)});
  return out;
}

/// Returns an argument as queued work must store it: lists in host memory are copied, as a kernel launch copies them.
template <class T>
T kept(const T& x) {
  return x;
}
std::vector<kernels::query_run> kept(std::span<const kernels::query_run> x) { return {x.begin(), x.end()}; }

/// Calls the CPU's kernel for one entry of a table, with addresses at which the device's memory can be accessed.
template <auto Table, auto Entry>
struct opened;
template <class Owner, class... Args, auto Table, void (*Owner::*Entry)(Args...)>
struct opened<Table, Entry> {
  static void call(Args... args) {
    ask_here([... x = kept(reached(args))]() mutable { (Table().*Entry)(x...); });
  }
};

/// Sums contributions, which are in the device's memory; the list of their addresses is in the host's memory.
void far_sum_in_rank_order(std::span<const std::byte* const> inputs, std::byte* output, uint64_t count,
                           const kernels::reduce_options& options) {
  std::vector<const std::byte*> at;
  for (const std::byte* x : inputs) at.push_back(reached(x));
  ask_here([at = std::move(at), to = reached(output), count, options] {
    on_cpu().sum_in_rank_order(at, to, count, options);
  });
}

template <auto Table, auto... Entries, class Owner>
void open_all(Owner& out) {
  ((out.*Entries = &opened<Table, Entries>::call), ...);
}

template <class State>
const kernels::optimizer_operations<State>& updates_on_cpu() {
  return on_cpu().updates<State>();
}

template <class State>
void open_updates(kernels::optimizer_operations<State>& out) {
  using all = kernels::optimizer_operations<State>;
  open_all<&updates_on_cpu<State>, &all::update, &all::update_keeping, &all::take_back, &all::average,
           &all::prepare_lamb, &all::apply_lamb, &all::prepare_muon, &all::apply_muon, &all::orthogonalise,
           &all::add_column_sums, &all::update_selected, &all::update_deferred>(out);
}

kernels::operations far_kernels() {
  using all = kernels::operations;
  kernels::operations out{};
  open_all<&on_cpu, &all::cast, &all::block_square_sums, &all::column_sums, &all::grouped_sums, &all::layer_norm,
           &all::layer_norm_backward, &all::rms_norm, &all::rms_norm_backward, &all::gelu_tanh,
           &all::gelu_tanh_backward, &all::silu_gated, &all::silu_gated_backward, &all::drop, &all::draw,
           &all::scale_kept, &all::turn_tokens, &all::partial_attention, &all::partial_attention_backward,
           &all::cross_entropy, &all::cross_entropy_backward, &all::cross_entropy_part, &all::joined_cross_entropy,
           &all::distil>(out);
  out.sum_in_rank_order = &far_sum_in_rank_order;
  open_updates(out.in_fp32);
  open_updates(out.in_fp64);
  return out;
}

void far_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  computes = true;
  ask_here([to = on_host(out), a = on_host(a), b = on_host(b), bias = on_host(bias)]() mutable {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    models::product_on_cpu(to, a, b, bias);
  });
}

/// Adds a product, also one of 16-bit factors to fp32, as cuBLAS does.
void far_add_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  ask_here([to = on_host(out), a = on_host(a), b = on_host(b)]() mutable {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    models::add_product_on_cpu(to, a.to(to.scalar_type()), b.to(to.scalar_type()));
  });
}

const models::attention_operations& attention_on_cpu() {
  static const models::attention_operations& table = models::attention_for(at::empty({0}));
  return table;
}

/// Runs the CPU's attention, which calls the kernels of the table. Like a GPU, keeps the output and the sums, which
/// backward requires.
at::Tensor far_attention(const models::attention_work& work, const models::attention_tensors& in,
                         models::attention_results& kept) {
  at::Tensor y = attention_on_cpu().forward(work, in, kept);
  kept = {y, at::empty({y.size(0)}, y.options())};
  return y;
}

void far_attention_backward(const models::attention_work& work, const models::attention_tensors& in,
                            const models::attention_results& kept, const at::Tensor& dy,
                            const models::attention_tensors& out) {
  TORCH_CHECK(kept.y.defined() && kept.log_sums.defined(), "backward of attention wants what its forward kept");
  attention_on_cpu().backward(work, in, kept, dy, out);
}

asked& asked_of_torch() {
  static asked all;
  return all;
}

constexpr models::cuda_process far_process{.settle =
                                               [](const models::cuda_settings& s) {
                                                 asked_of_torch().settings = s;
                                                 asked_of_torch().kernels = counting().kernels;
                                               },
                                           .restore = [] { ++asked_of_torch().restored; },
                                           .limit_memory = [](uint32_t index, uint64_t bytes) -> core::result<void> {
                                             asked_of_torch().index = index;
                                             asked_of_torch().bytes = bytes;
                                             return {};
                                           },
                                           .empty_cache = [] { ++asked_of_torch().emptied; },
                                           .watch_memory = watch_memory};

}  // namespace

const asked& last_asked() { return asked_of_torch(); }

void provide() {
  at::set_num_threads(1);  // limits the threads of Torch's backward; lanes limit their own threads themselves
  static const kernels::operations table = far_kernels();
  // All rows of a call are one panel, as on a GPU.
  static const models::operations products{
      .memory = &table, .product_out = &far_product, .add_product = &far_add_product, .panel_rows = 0};
  device::provide(device_kind::cuda, far_backend);
  kernels::provide(device_kind::cuda, table);
  static const models::attention_operations attention{&far_attention, &far_attention_backward};
  models::provide(device_kind::cuda, products);
  models::provide(device_kind::cuda, attention);
  models::provide(far_process);
}

counts counted() {
  const counters& c = counting();
  return {c.kernels, c.torch,         c.copies,   c.uploads,    c.downloads, c.items,
          c.waits,   c.compute_waits, c.bytes_up, c.bytes_down, c.unpinned};
}

}  // namespace troupe::far
