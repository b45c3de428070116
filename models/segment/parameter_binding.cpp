// Parameter tensors whose memory changes: each keeps one StorageImpl, whose data pointer is exchanged, and a second one
// that refuses access.
#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/TensorOptions.h>

#include <algorithm>
#include <iterator>

#include "core/tied_copies.hpp"
#include "models/segment/parameter_binding.hpp"
#include "models/segment/torch_device.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

c10::Storage storage_without_bytes(size_t bytes, at::Device where) {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, c10::DataPtr(nullptr, where),
                                               /*allocator=*/nullptr, /*resizable=*/false);
}

/// Returns the storage that a released parameter has: requesting its bytes throws c10::Error. A null pointer is not
/// enough, because some of ATen's operations dereference it.
c10::Storage refusing_storage(const core::parameter_info& info, size_t bytes, at::Device where) {
  c10::Storage storage = storage_without_bytes(bytes, where);
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "parameter " + info.name + " is used while it is not bound");
  return storage;
}

}  // namespace

parameter_binding::parameter_binding(const core::model_table& table, core::dtype type, std::vector<at::Tensor> own,
                                     device::device_id device)
    : device_(torch_device(device)) {
  const auto originals = std::ranges::count_if(table.parameters, [](const auto& p) { return !p.is_copy(); });
  TORCH_CHECK(own.empty() || own.size() == static_cast<size_t>(originals), "a binding of ", originals,
              " parameters, given ", own.size(), " tensors");
  sharing_.resize(table.parameters.size());
  if (!own.empty())
    for (const auto& uses : core::uses_of_tied(table))
      for (const uint32_t q : uses)
        std::ranges::copy_if(uses, std::back_inserter(sharing_[q]), [q](uint32_t other) { return other != q; });
  for (const auto& info : table.parameters) {
    const at::ScalarType scalar = torch_dtype(type);
    const size_t bytes = info.numel() * c10::elementSize(scalar);
    bytes_.push_back(storage_without_bytes(bytes, device_));
    none_.push_back(refusing_storage(info, bytes, device_));
    at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(none_.back()),
        c10::DispatchKeySet(at::TensorOptions().dtype(scalar).device(device_).computeDispatchKey()),
        c10::scalarTypeToTypeMeta(scalar));
    t.unsafeGetTensorImpl()->set_sizes_contiguous(info.shape);
    if (own.empty()) {
      tensors_.push_back(std::move(t));
    } else if (info.is_copy()) {
      tensors_.push_back(tensors_[*info.copy_of]);
    } else {
      at::Tensor& mine = own[tensors_.size()];
      if (mine.defined()) mine.set_data(t);  // every module that has this tensor now sees the new dtype and device
      tensors_.push_back(mine.defined() ? std::move(mine) : std::move(t));
      tensors_.back().set_requires_grad(info.trainable);
    }
    bound_.push_back(false);
    trainable_.push_back(info.trainable);
  }
}

// Releases all parameters, so that a tensor that outlives the binding does not refer to memory that its owner is about
// to free.
parameter_binding::~parameter_binding() {
  for (uint32_t p = 0; p < tensors_.size(); ++p) release(p);
}

void parameter_binding::bind(uint32_t parameter, void* data) {
  bytes_.at(parameter).unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(data, device_));
  tensors_[parameter].unsafeGetTensorImpl()->set_storage_keep_dtype(bytes_[parameter]);
  bound_[parameter] = true;
  for (const uint32_t other : sharing_[parameter]) bound_[other] = false;
}

void parameter_binding::release(uint32_t parameter) {
  bytes_.at(parameter).unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(nullptr, device_));
  tensors_[parameter].unsafeGetTensorImpl()->set_storage_keep_dtype(none_[parameter]);
  bound_[parameter] = false;
}

bool parameter_binding::bound(uint32_t parameter) const { return bound_.at(parameter); }

bool parameter_binding::trainable(uint32_t parameter) const { return trainable_.at(parameter); }

const at::Tensor& parameter_binding::tensor(uint32_t parameter) const { return tensors_.at(parameter); }

}  // namespace troupe::models
