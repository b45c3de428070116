#include "tests/far/torch.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/as_strided.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/far/arena.hpp"
#include "tests/far/counters.hpp"
#include "tests/far/device.hpp"
#include "tests/far/streams.hpp"

namespace troupe::far {

at::Tensor on_host(const at::Tensor& t) {
  if (!t.defined() || !t.is_cuda()) return t;
  c10::DataPtr bytes(for_device(t.storage().data(), "an operation of Torch"), c10::kCPU);
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), t.storage().nbytes(),
                                                       std::move(bytes), nullptr, false);
  at::Tensor out = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                                            c10::DispatchKeySet(c10::DispatchKey::CPU), t.dtype());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
  return out;
}

namespace {

const c10::Device far_device(c10::kCUDA, 0);
const c10::DispatchKeySet far_keys(c10::DispatchKey::CUDA);

std::atomic<bool> refuses{false}, torch_fails{false};
std::atomic<const models::memory_watch*> watched{nullptr};

/// Memory that belongs to the stream of the thread that allocated it, as in Torch's own allocator: it may be reused
/// when the work queued on that stream before its release is done, and also that of the other streams that Torch has
/// recorded for it.
struct held_bytes {
  std::byte* at;
  uint64_t bytes;
  void* stream;
  std::vector<void*> others{};
};

class far_allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, [](void*) {}, far_device};
    TORCH_CHECK_WITH(OutOfMemoryError, !refuses, "CUDA out of memory. Tried to allocate ", bytes,
                     " bytes. GPU 0 has a total capacity of 16.00 GiB.");
    TORCH_CHECK(!torch_fails, "cuBLAS error: not initialised\nadvice for those who debug");
    TORCH_CHECK(!is_lost(), "CUDA error: unspecified launch failure\nadvice for those who debug");
    auto* const held = new held_bytes{take(side::device, bytes, filled::nans), bytes, torch_stream()};
    if (const auto* const w = watched.load()) w->took(held->at, bytes, held->stream);
    return {held->at, held, &release, far_device};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    ask(torch_stream(), [to = for_copy(to), from = for_copy(from), bytes] { std::memcpy(to, from, bytes); });
  }

 private:
  static void release(void* context) {
    const std::unique_ptr<held_bytes> held(static_cast<held_bytes*>(context));
    if (const auto* const w = watched.load()) w->gave(held->at);
    for (void* const other : held->others) {
      std::shared_ptr<void> used;
      far::record(other, used);
      far::wait(held->stream, used.get());
    }
    ask(held->stream, [at = held->at, bytes = held->bytes] { give(side::device, at, bytes); });
  }
};

far_allocator& memory() {
  static far_allocator all;
  return all;
}

struct far_guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = c10::kCUDA;
  far_guard() = default;
  explicit far_guard(c10::DeviceType /*type*/) {}
  [[nodiscard]] c10::DeviceType type() const override { return c10::kCUDA; }
  [[nodiscard]] c10::Device exchangeDevice(c10::Device /*to*/) const override { return far_device; }
  [[nodiscard]] c10::Device getDevice() const override { return far_device; }
  void setDevice(c10::Device /*to*/) const override {}
  void uncheckedSetDevice(c10::Device /*to*/) const noexcept override {}
  [[nodiscard]] c10::Stream getStream(c10::Device /*of*/) const override { return in_torch(torch_stream()); }
  [[nodiscard]] c10::Stream getDefaultStream(c10::Device /*of*/) const override {
    return c10::Stream(c10::Stream::DEFAULT, far_device);
  }
  [[nodiscard]] c10::Stream exchangeStream(c10::Stream to) const override {
    return in_torch(make_torch_stream(numbered(to.id())));
  }
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void** event, const c10::Stream& of, const c10::DeviceIndex /*on*/,
              const c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) *event = new std::shared_ptr<void>;
    far::record(numbered(of.id()), native(*event));
  }
  void block(void* event, const c10::Stream& waits) const override {
    if (event != nullptr) far::wait(numbered(waits.id()), native(event).get());
  }
  [[nodiscard]] bool queryEvent(void* event) const override { return event == nullptr || is_over(native(event).get()); }
  void destroyEvent(void* event, const c10::DeviceIndex /*on*/) const noexcept override {
    delete static_cast<std::shared_ptr<void>*>(event);
  }
  void recordDataPtrOnStream(const c10::DataPtr& bytes, const c10::Stream& used) const override {
    if (auto* const held = static_cast<held_bytes*>(bytes.get_context())) held->others.push_back(numbered(used.id()));
  }

 private:
  static c10::Stream in_torch(void* stream) { return c10::Stream(c10::Stream::UNSAFE, far_device, number_of(stream)); }
  static std::shared_ptr<void>& native(void* event) { return *static_cast<std::shared_ptr<void>*>(event); }
};
C10_REGISTER_GUARD_IMPL(CUDA, far_guard);

}  // namespace

void refuse_memory(bool refused) { refuses = refused; }
void fail_torch(bool fails) { torch_fails = fails; }

core::result<void> watch_memory(const models::memory_watch& w) {
  static const models::memory_watch kept = w;
  watched = &kept;
  return {};
}

struct far_hooks final : at::CUDAHooksInterface {
  explicit far_hooks(at::CUDAHooksArgs /*args*/) {}
  void init() const override {}
  [[nodiscard]] bool hasCUDA() const override { return true; }
  [[nodiscard]] bool isBuilt() const override { return true; }
  [[nodiscard]] bool isAvailable() const override { return true; }
  [[nodiscard]] bool hasPrimaryContext(c10::DeviceIndex /*of*/) const override { return true; }
  [[nodiscard]] c10::DeviceIndex deviceCount() const override { return 1; }
  [[nodiscard]] c10::DeviceIndex getCurrentDevice() const override { return 0; }
  [[nodiscard]] c10::DeviceIndex current_device() const override { return 0; }
  [[nodiscard]] c10::Device getDeviceFromPtr(void* /*pointer*/) const override { return far_device; }
};

namespace {

/// Copies the bytes of `t` to `to`, which has the same sizes and strides; the host can access both.
void move_bytes(const at::Tensor& to, const at::Tensor& t) {
  if (t.numel() == 0 || to.const_data_ptr() == t.const_data_ptr()) return;
  std::memcpy(to.data_ptr(), t.const_data_ptr(),
              at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize()));
}

/// Time at which on_far() copies the result of a CPU operation to the device's memory: at once or later.
enum class result : uint8_t { is_there, comes_later };
at::Tensor on_far(const at::Tensor& t, result when) {
  at::Tensor out = at::detail::empty_strided_generic(t.sizes(), t.strides(), &memory(), far_keys, t.scalar_type());
  if (when == result::is_there) move_bytes(on_host(out), t);
  return out;
}

/// Returns true if `t` is a result whose size the operation itself determines.
bool is_unsized(const at::Tensor& t) { return t.defined() && t.is_cuda() && t.storage().nbytes() == 0; }

/// If the operation writes its result into one of its arguments, returns that argument; otherwise returns null.
const c10::IValue* written_argument(const c10::FunctionSchema& schema, const c10::Argument& result,
                                    const std::vector<c10::IValue>& given) {
  const auto* const alias = result.alias_info();
  if (alias == nullptr || !alias->isWrite()) return nullptr;
  for (size_t k = 0; k < given.size(); ++k) {
    const auto* const of = schema.arguments()[k].alias_info();
    if (of != nullptr && of->isWrite() && *of == *alias) return &given[k];
  }
  return nullptr;
}

c10::IValue result_on_far(const c10::IValue& x, result when) {
  if (x.isTensor() && x.toTensor().defined()) return on_far(x.toTensor(), when);
  if (!x.isTensorList()) return x;
  std::vector<at::Tensor> all;
  for (const at::Tensor& t : x.toTensorVector()) all.push_back(on_far(t, when));
  return all;
}

/// Replaces every tensor in an argument by `f` of it, and returns the new argument.
c10::IValue each_tensor(const c10::IValue& x, auto f) {
  if (x.isTensor()) return f(x.toTensor());
  if (x.isTensorList()) {
    std::vector<at::Tensor> all;
    for (const at::Tensor& t : x.toTensorVector()) all.push_back(f(t));
    return all;
  }
  if (x.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> all;
    for (const std::optional<at::Tensor>& t : x.toOptionalTensorList()) all.push_back(t ? std::optional(f(*t)) : t);
    return all;
  }
  return x.isDevice() ? c10::IValue(c10::Device(c10::kCPU)) : x;
}

c10::IValue argument_now(const c10::IValue& x) {
  return each_tensor(x, [](const at::Tensor& t) -> at::Tensor {
    if (is_unsized(t)) return at::detail::empty_cpu({0}, t.scalar_type());
    return on_host(t);
  });
}

/// Returns the argument with zeros for all numbers that are not known yet.
c10::IValue argument_of_zeros(const c10::IValue& x) {
  return each_tensor(x, [](const at::Tensor& t) -> at::Tensor {
    if (!t.defined() || !t.is_cuda()) return t;
    if (is_unsized(t)) return at::detail::empty_cpu({0}, t.scalar_type());
    at::Tensor zeros = at::detail::empty_strided_cpu(t.sizes(), t.strides(), t.scalar_type());
    return zeros.zero_();
  });
}

/// Returns the argument for an operation that is done later; copies host tensors, so that later changes have no effect
/// on it.
c10::IValue argument_later(const c10::IValue& x) {
  return each_tensor(x, [](const at::Tensor& t) -> at::Tensor {
    if (!t.defined() || t.is_cuda()) return on_host(t);
    at::Tensor out = t.clone();
    out.unsafeGetTensorImpl()->set_wrapped_number(t.unsafeGetTensorImpl()->is_wrapped_number());
    return out;
  });
}

std::vector<c10::IValue> by_the_cpu(const c10::OperatorHandle& op, std::vector<c10::IValue> arguments) {
  op.callBoxedForDispatchKey(c10::DispatchKey::CPU, arguments);
  return arguments;
}

/// Results that are computed later: their indices among the operation's results, and in the same order the tensors into
/// which they are copied.
struct late_results {
  std::vector<size_t> which{};
  std::vector<at::Tensor> to{};

  void add(size_t k, const c10::IValue& x) {
    which.push_back(k);
    each_tensor(x, [&](const at::Tensor& t) { return to.emplace_back(on_host(t)); });
  }
  void move(const std::vector<c10::IValue>& got) const {
    size_t next = 0;
    for (const size_t k : which)
      each_tensor(got[k], [&](const at::Tensor& t) {
        move_bytes(to[next++], t);
        return t;
      });
  }
};

/// Implements any operation by running the CPU's operation on the same bytes when the stream reaches it. The shapes of
/// late results are determined by running the operation on zeros first.
void on_stream(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  ++counting().torch;
  const auto& schema = op.schema();
  const auto& returns = schema.returns();
  const size_t count = schema.arguments().size();
  const auto last = torch::jit::last(*stack, count);
  const std::vector<c10::IValue> given(last.begin(), last.end());
  torch::jit::drop(*stack, count);
  const bool gives_numbers = std::ranges::any_of(returns, [](const c10::Argument& x) {
    const auto kind = x.type()->kind();
    return kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType;
  });
  if (gives_numbers) finish(torch_stream());  // a real device's operation would also wait here
  const bool later = is_late() && !gives_numbers;
  const result when = later ? result::comes_later : result::is_there;
  std::vector<c10::IValue> arguments;
  for (const c10::IValue& x : given) arguments.push_back(later ? argument_of_zeros(x) : argument_now(x));
  const std::vector<c10::IValue> got = by_the_cpu(op, std::move(arguments));
  late_results made;
  for (size_t k = 0; k < returns.size(); ++k) {
    const c10::IValue* const written = written_argument(schema, returns[k], given);
    const bool sized_now = written != nullptr && is_unsized(written->toTensor());
    if (sized_now)
      written->toTensor().unsafeGetTensorImpl()->shallow_copy_from(on_far(got[k].toTensor(), when).getIntrusivePtr());
    stack->push_back(written != nullptr ? *written : result_on_far(got[k], when));
    if (written == nullptr || sized_now) made.add(k, stack->back());
  }
  if (!later) return;
  arguments = {};
  for (const c10::IValue& x : given) arguments.push_back(argument_later(x));
  ask(torch_stream(), [op, arguments = std::move(arguments), made = std::move(made)] {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    made.move(by_the_cpu(op, arguments));
  });
}

at::Tensor empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout> /*layout*/,
                 std::optional<at::Device> /*device*/, std::optional<bool> /*pinned*/,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), &memory(), far_keys, type.value_or(at::kFloat),
                                   format);
}

at::Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout> /*layout*/, std::optional<at::Device> /*device*/,
                         std::optional<bool> /*pinned*/) {
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides), &memory(),
                                           far_keys, type.value_or(at::kFloat));
}

/// Copies a tensor. If one of the two is in host memory, the host waits for the copy.
at::Tensor& copy_into(at::Tensor& to, const at::Tensor& from, bool /*without_wait*/) {
  if (from.is_cpu()) ++counting().uploads;
  if (to.is_cpu()) ++counting().downloads;
  const bool waits = from.is_cpu() || to.is_cpu();
  if (waits) finish(torch_stream());
  const auto copy = [into = on_host(to), from = on_host(from)] {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    into.copy_(from);
  };
  waits ? copy() : ask(torch_stream(), copy);
  return to;
}

at::Tensor as_strided(const at::Tensor& t, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                      std::optional<c10::SymInt> offset) {
  at::Tensor out = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(t.storage()),
                                                            t.key_set(), t.dtype());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(
      C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
      std::optional<int64_t>(offset ? offset->expect_int() : t.storage_offset()));
  return out;
}

at::Tensor view(const at::Tensor& t, c10::SymIntArrayRef wanted) {
  const auto sizes = at::infer_size_dv(C10_AS_INTARRAYREF_SLOW(wanted), t.numel());
  const auto strides = at::detail::computeStride(t.sizes(), t.strides(), sizes);
  TORCH_CHECK(strides, "a view of ", t.sizes(), " as ", sizes);
  return at::as_strided(t, sizes, *strides);
}

at::Tensor reshaped(const at::Tensor& t, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  return at::as_strided(t, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides));
}

at::Scalar item(const at::Tensor& t) {
  ++counting().items;
  finish(torch_stream());
  return on_host(t).item();
}

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_stream>()); }
TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("copy_", copy_into);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshaped);
  m.impl("_local_scalar_dense", item);
}

}  // namespace
}  // namespace troupe::far

namespace at {
using troupe::far::far_hooks;
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, far_hooks)
}  // namespace at
