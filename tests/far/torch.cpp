#include "tests/far/torch.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/as_strided.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "tests/far/arena.hpp"
#include "tests/far/counters.hpp"

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

struct held_bytes {
  std::byte* at;
  uint64_t bytes;
};

class far_allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, [](void*) {}, far_device};
    auto* const held = new held_bytes{take(side::device, bytes), bytes};
    return {held->at, held, &release, far_device};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(for_copy(to), for_copy(from), bytes);
  }

 private:
  static void release(void* context) {
    const auto* const held = static_cast<held_bytes*>(context);
    give(side::device, held->at, held->bytes);
    delete held;
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
  [[nodiscard]] c10::Stream getStream(c10::Device /*of*/) const override { return current(); }
  [[nodiscard]] c10::Stream getDefaultStream(c10::Device /*of*/) const override {
    return c10::Stream(c10::Stream::DEFAULT, far_device);
  }
  [[nodiscard]] c10::Stream exchangeStream(c10::Stream to) const override { return std::exchange(current(), to); }
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void** /*event*/, const c10::Stream& /*of*/, const c10::DeviceIndex /*on*/,
              const c10::EventFlag /*flag*/) const override {}
  void block(void* /*event*/, const c10::Stream& /*waits*/) const override {}
  [[nodiscard]] bool queryEvent(void* /*event*/) const override { return true; }
  void destroyEvent(void* /*event*/, const c10::DeviceIndex /*on*/) const noexcept override {}

 private:
  static c10::Stream& current() {
    thread_local c10::Stream mine{c10::Stream::DEFAULT, far_device};
    return mine;
  }
};
C10_REGISTER_GUARD_IMPL(CUDA, far_guard);

}  // namespace

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

/// A copy in the device's memory of a result of the CPU's.
at::Tensor on_far(const at::Tensor& t) {
  at::Tensor out = at::detail::empty_strided_generic(t.sizes(), t.strides(), &memory(), far_keys, t.scalar_type());
  if (t.numel() > 0) {
    const size_t bytes = std::min(t.storage().nbytes() - t.storage_offset() * t.itemsize(), out.storage().nbytes());
    std::memcpy(for_copy(out.storage().data()), t.const_data_ptr(), bytes);
  }
  return out;
}

/// Whether `t` is a result whose size the operation finds.
bool is_unsized(const at::Tensor& t) { return t.defined() && t.is_cuda() && t.storage().nbytes() == 0; }

c10::IValue argument_on_host(const c10::IValue& x) {
  if (x.isTensor()) {
    const at::Tensor& t = x.toTensor();
    if (is_unsized(t)) return at::detail::empty_cpu({0}, t.scalar_type());
    return on_host(t);
  }
  if (x.isDevice()) return c10::Device(c10::kCPU);
  if (x.isTensorList()) {
    std::vector<at::Tensor> all;
    for (const at::Tensor& t : x.toTensorVector()) all.push_back(on_host(t));
    return all;
  }
  if (x.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> all;
    for (const std::optional<at::Tensor>& t : x.toOptionalTensorList())
      all.push_back(t ? std::optional(on_host(*t)) : t);
    return all;
  }
  return x;
}

/// The argument that a result is, where an operation writes into one of its arguments.
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

c10::IValue result_on_far(const c10::IValue& x) {
  if (x.isTensor() && x.toTensor().defined()) return on_far(x.toTensor());
  if (!x.isTensorList()) return x;
  std::vector<at::Tensor> all;
  for (const at::Tensor& t : x.toTensorVector()) all.push_back(on_far(t));
  return all;
}

/// Any operation: the CPU's on the same bytes.
void by_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  ++counting().torch;
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size();
  const auto last = torch::jit::last(*stack, count);
  const std::vector<c10::IValue> given(last.begin(), last.end());
  torch::jit::drop(*stack, count);
  for (const c10::IValue& x : given) stack->push_back(argument_on_host(x));
  op.callBoxedForDispatchKey(c10::DispatchKey::CPU, *stack);
  const auto& returns = schema.returns();
  const std::vector<c10::IValue> got(stack->end() - static_cast<std::ptrdiff_t>(returns.size()), stack->end());
  torch::jit::drop(*stack, returns.size());
  for (size_t k = 0; k < returns.size(); ++k) {
    const c10::IValue* const written = written_argument(schema, returns[k], given);
    if (written != nullptr && is_unsized(written->toTensor()))
      written->toTensor().unsafeGetTensorImpl()->shallow_copy_from(on_far(got[k].toTensor()).getIntrusivePtr());
    stack->push_back(written != nullptr ? *written : result_on_far(got[k]));
  }
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

at::Tensor& copy_into(at::Tensor& to, const at::Tensor& from, bool /*without_wait*/) {
  if (from.is_cpu()) ++counting().uploads;
  if (to.is_cpu()) ++counting().downloads;
  on_host(to).copy_(on_host(from));
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
  return on_host(t).item();
}

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&by_the_cpu>()); }
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
