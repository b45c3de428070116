// Owns troupe-tensor-files: writes and reads tensors through `storage::io_handle`, as with DeepSpeed's aio handle.
//   troupe-tensor-files FOLDER
// Writes three tensors into one file of FOLDER at once, reads them back one after the other as they arrive, and removes
// the file. A tensor is handled as its bytes; only `bytes_of` converts.
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randn.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "storage/handle/io_handle.hpp"

namespace {

using namespace troupe;

constexpr size_t tensors = 3;
constexpr int64_t elements = 1'000'000;

int fail(const std::string& why) {
  std::fprintf(stderr, "troupe-tensor-files: %s\n", why.c_str());
  return 1;
}

// [snippet: tensor bytes]
/// Returns the memory of a contiguous tensor on the CPU.
std::span<std::byte> bytes_of(const at::Tensor& t) { return {static_cast<std::byte*>(t.data_ptr()), t.nbytes()}; }

/// Returns a tensor of `count` floats in huge, locked memory of the handle, which transfers need not copy.
core::result<at::Tensor> new_pinned_tensor(storage::io_handle& handle, int64_t count) {
  auto memory = handle.new_pinned(static_cast<uint64_t>(count) * sizeof(float));
  if (!memory) return core::fail(memory.error());
  return at::from_blob(memory->data(), {count}, at::kFloat);
}
// [end]

// [snippet: tensor files]
core::result<void> there_and_back(storage::io_handle& handle, const std::filesystem::path& path) {
  std::vector<at::Tensor> written, read;
  for (size_t i = 0; i < tensors; ++i) {
    written.push_back(at::randn({elements}));
    auto pinned = new_pinned_tensor(handle, elements);
    if (!pinned) return core::fail(pinned.error());
    read.push_back(*pinned);
    const auto begun = handle.async_pwrite(bytes_of(written.back()), path, i * written.back().nbytes());
    if (!begun) return core::fail(begun.error());
  }
  for (const auto& over : handle.wait())  // all finished operations
    if (over.error) return core::fail(*over.error);

  std::vector<storage::io_operation> reads;
  for (size_t i = 0; i < tensors; ++i) {
    const auto begun = handle.async_pread(bytes_of(read[i]), path, i * read[i].nbytes());
    if (!begun) return core::fail(begun.error());
    reads.push_back(*begun);
  }
  for (size_t i = 0; i < tensors; ++i) {
    if (const auto bytes = handle.wait(reads[i]); !bytes) return core::fail(bytes.error());
    // The first tensor can be used while the others are still being read.
    if (!at::equal(read[i], written[i])) return core::fail(core::error_kind::io, path.string() + ": other values");
  }
  return {};
}
// [end]

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fail("usage: troupe-tensor-files FOLDER");
  // [snippet: open handle]
  storage::io_handle_options options;
  options.block_bytes = 1 << 20;
  options.queue_depth = 32;
  options.intra_op_parallelism = 2;
  auto handle = storage::io_handle::open(options);
  if (!handle) return fail(handle.error().text);
  for (const auto& sentence : (*handle)->remarks()) std::fprintf(stderr, "note: %s\n", sentence.c_str());
  // [end]
  const auto path = std::filesystem::path(argv[1]) / "tensors.bin";
  if (std::filesystem::exists(path)) return fail(path.string() + " is there already");
  const auto done = there_and_back(**handle, path);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  if (!done) return fail(done.error().text);
  std::printf("%zu tensors of %lld elements went to %s and came back through %s\n", tensors,
              static_cast<long long>(elements), path.c_str(), (*handle)->engine().c_str());
  return 0;
}
