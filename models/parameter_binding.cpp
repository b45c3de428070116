// Tensors whose bytes come and go: one StorageImpl each for life, its data pointer swapped.
#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include "models/language_model.hpp"
#include "models/torch_dtype.hpp"

namespace troupe::models {
namespace {

at::Tensor unbound_tensor(const core::parameter_info& info, at::ScalarType type) {
  const size_t bytes = info.numel() * c10::elementSize(type);
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       c10::DataPtr(nullptr, c10::Device(c10::kCPU)),
                                                       /*allocator=*/nullptr, /*resizable=*/false);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(type));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(info.shape);
  return tensor;
}

void swap_data(const at::Tensor& tensor, void* data) {
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(data, c10::Device(c10::kCPU)));
}

}  // namespace

parameter_binding::parameter_binding(const core::model_table& table, core::dtype type)
    : bound_(table.parameters.size(), false) {
  tensors_.reserve(table.parameters.size());
  for (const auto& info : table.parameters) tensors_.push_back(unbound_tensor(info, torch_dtype(type)));
}

// Tensors that outlive the binding must not reach memory that its owner is about to free.
parameter_binding::~parameter_binding() {
  for (uint32_t p = 0; p < tensors_.size(); ++p) release(p);
}

void parameter_binding::bind(uint32_t parameter, void* data) {
  swap_data(tensors_.at(parameter), data);
  bound_.at(parameter) = data != nullptr;
}

void parameter_binding::release(uint32_t parameter) {
  swap_data(tensors_.at(parameter), nullptr);
  bound_.at(parameter) = false;
}

bool parameter_binding::bound(uint32_t parameter) const { return bound_.at(parameter); }

const at::Tensor& parameter_binding::tensor(uint32_t parameter) const { return tensors_.at(parameter); }

}  // namespace troupe::models
