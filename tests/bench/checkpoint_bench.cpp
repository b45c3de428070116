// Durable saves and loads of the native format beside fio on the same file system, in turn.
//   bench_checkpoint [FOLDER [MIB]]
// A save is timed from its begin until the checkpoint is synced and committed, fio's write until its last completion.
// Loads and fio's reads take the same file, past the page cache. All runs are listed: disks have good and bad minutes.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/source/load_plan.hpp"
#include "checkpoint/source/native_read.hpp"
#include "checkpoint/source/scatter_read.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/clock.hpp"
#include "storage/memory/huge_memory.hpp"
#include "tests/bench/fio.hpp"

namespace {

using namespace troupe;

constexpr uint64_t mib = uint64_t{1} << 20;
constexpr uint64_t tensor_bytes = 32 * mib, staging_block_bytes = 4 * mib, staging_blocks = 16;
constexpr unsigned rounds = 7, fio_depth = 32;

// The folder and the set-aside pages are given back when somebody interrupts, or closes the output, too.
volatile std::sig_atomic_t interrupted = 0;

template <class T>
T must(core::result<T> r) {
  if (!r) throw std::runtime_error(r.error().text);
  return std::move(*r);
}
void must(const core::result<void>& r) {
  if (!r) throw std::runtime_error(r.error().text);
}

struct scratch {
  std::filesystem::path path;
  ~scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

std::string name_of(uint64_t number) {
  std::string out = "t";
  return out.append(std::to_string(number));
}

checkpoint::tensor_entry tensor(uint64_t number, const checkpoint::written_piece& p) {
  const uint64_t elements = p.bytes / 4;
  checkpoint::tensor_entry out;
  out.name = name_of(number);
  out.shape = {static_cast<int64_t>(elements)};
  out.pieces = {{0, 0, elements, p.offset_bytes, p.digest}};
  return out;
}

/// Pieces go through a staging pool, as those of a running training do: copied, then written behind it.
checkpoint::written_piece staged(checkpoint::shard_writer& shard, std::span<const std::byte> piece,
                                 std::span<std::byte> staging, std::vector<uint64_t>& tickets, size_t& next) {
  for (size_t done = 0; done < piece.size(); next = (next + 1) % tickets.size()) {
    const auto block = staging.subspan(next * staging_block_bytes, staging_block_bytes);
    must(shard.wait(tickets[next]));
    const size_t n = std::min(piece.size() - done, block.size());
    std::memcpy(block.data(), piece.data() + done, n);
    tickets[next] = must(shard.start_block(block, n));
    done += n;
  }
  return shard.end_piece();
}

enum class way { appended, staged_blocks };

/// GB/s of one save.
double save(const std::filesystem::path& root, std::span<const std::byte> payload, way how,
            std::span<std::byte> staging) {
  auto& files = checkpoint::real_files();
  std::vector<uint64_t> tickets(staging_blocks, 0);
  size_t next = 0;
  const int64_t start = core::now_ns();
  const std::vector<uint64_t> sizes(payload.size() / tensor_bytes, tensor_bytes);
  const uint64_t bytes = checkpoint::shard_bytes_for(sizes);
  auto s = must(checkpoint::checkpoint_save::begin(files, root, 1, bytes));
  auto shard = must(s.create_shard(0, bytes));
  checkpoint::manifest m;
  for (uint64_t i = 0; i < sizes.size(); ++i) {
    const auto piece = payload.subspan(i * tensor_bytes, tensor_bytes);
    m.tensors.push_back(
        tensor(i, how == way::appended ? must(shard.append(piece)) : staged(shard, piece, staging, tickets, next)));
  }
  m.files.push_back(must(shard.finish()));
  must(s.commit(std::move(m)));
  return static_cast<double>(payload.size()) / static_cast<double>(core::now_ns() - start);
}

/// GB/s of one load, digests compared; by a plan of ranges, or scattered as runs read.
double load(const std::filesystem::path& root, std::span<std::byte> into, bool scattered) {
  auto& files = checkpoint::real_files();
  const int64_t start = core::now_ns();
  const auto from = checkpoint::source_of(must(checkpoint::open_checkpoint(files, root)));
  constexpr uint64_t count = tensor_bytes / 4;
  std::vector<checkpoint::wanted_slice> wanted;
  std::vector<checkpoint::scattered_tensor> targets;
  for (uint64_t i = 0; i < into.size() / tensor_bytes; ++i) {
    const auto kind = checkpoint::tensor_kind::master;
    const uint64_t at = i * tensor_bytes;
    wanted.push_back({name_of(i), kind, "", core::dtype::f32, {static_cast<int64_t>(count)}, 0, count, at});
    targets.push_back({checkpoint::find_tensor(from, name_of(i), kind), {{0, count, core::dtype::f32, &into[at]}}});
  }
  const auto plan = must(checkpoint::plan_load(from, wanted));
  const auto report =
      must(scattered ? checkpoint::read_scattered(files, from, targets) : read_pieces(files, from, plan, into));
  const auto ns = static_cast<double>(core::now_ns() - start);
  if (report.verified_bytes != into.size()) throw std::runtime_error("a load left bytes without their digest compared");
  return static_cast<double>(into.size()) / ns;
}

double median(std::vector<double> runs) {
  std::sort(runs.begin(), runs.end());
  return runs.empty() ? 0 : runs[runs.size() / 2];
}

void print(const char* who, const std::vector<double>& runs, const std::vector<double>& fio) {
  if (runs.empty()) return;
  std::printf("  %-22s", who);
  for (const double r : runs) std::printf(" %6.2f", r);
  std::printf("   best %.2f median %.2f", *std::max_element(runs.begin(), runs.end()), median(runs));
  if (!fio.empty() && &fio != &runs)
    std::printf("; of fio's best %.0f %%, of its median %.0f %%",
                100 * *std::max_element(runs.begin(), runs.end()) / *std::max_element(fio.begin(), fio.end()),
                100 * median(runs) / median(fio));
  std::printf("\n");
}

int run(int argc, char** argv) {
  const bool given = argc > 1 && argv[1][0] != '-';
  const std::filesystem::path folder = given ? std::filesystem::path(argv[1]) : std::filesystem::temp_directory_path();
  const uint64_t mebibytes = given && argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2048;
  std::string name = (folder / "troupe-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr || mebibytes < 32 || mebibytes % 32 != 0) {
    std::fprintf(stderr, "bench_checkpoint: wanted a folder to write to and a multiple of 32 MiB, got %s and %llu\n",
                 folder.c_str(), static_cast<unsigned long long>(mebibytes));
    return 2;
  }
  const scratch removed{name};
  const auto root = removed.path / "run", other = removed.path / "fio";
  auto payload = must(storage::huge_memory::allocate(mebibytes * mib));
  auto loaded = must(storage::huge_memory::allocate(mebibytes * mib));
  const auto staging_memory = must(storage::huge_memory::allocate(staging_block_bytes * staging_blocks));
  const std::span staging(staging_memory.data(), staging_memory.bytes());
  for (uint64_t i = 0; i < payload.bytes(); i += 8) {
    const uint64_t value = i * 0x9e3779b97f4a7c15U;
    std::memcpy(payload.data() + i, &value, 8);
  }
  std::memset(loaded.data(), 1, loaded.bytes());
  std::ranges::fill(staging, std::byte{1});
  const std::span from(payload.data(), payload.bytes()), into(loaded.data(), loaded.bytes());
  const tests::fio_room room;
  std::printf("checkpoint: %llu MiB, %u rounds in turn, GB/s; saves end synced and committed\n",
              static_cast<unsigned long long>(mebibytes), rounds);
  if (!room.why_not().empty()) std::printf("  fio is skipped: %s\n", room.why_not().c_str());
  std::vector<double> fio_write, appended, blocks, fio_read, loads, scattered;
  for (unsigned round = 0; round < rounds; ++round) {
    if (interrupted != 0) throw std::runtime_error("interrupted");
    if (room.why_not().empty())
      if (const auto rate = tests::fio_rate(other, "write", fio_depth, from.size())) fio_write.push_back(*rate);
    std::filesystem::remove(other);
    blocks.push_back(save(root, from, way::staged_blocks, staging));
    std::filesystem::remove_all(root);
    appended.push_back(save(root, from, way::appended, staging));
    if (room.why_not().empty())
      if (const auto rate = tests::fio_rate(root / "step-00000001" / "shard-00000.bin", "read", fio_depth, from.size()))
        fio_read.push_back(*rate);
    for (const bool as_runs_do : {false, true}) {
      std::memset(loaded.data(), 1, loaded.bytes());
      (as_runs_do ? scattered : loads).push_back(load(root, into, as_runs_do));
      if (std::memcmp(from.data(), into.data(), into.size()) != 0) throw std::runtime_error("a load gave other bytes");
    }
    std::filesystem::remove_all(root);
  }
  print("fio write", fio_write, fio_write);
  print("save, staged blocks", blocks, fio_write);
  print("save, appended", appended, fio_write);
  print("fio read", fio_read, fio_read);
  print("load, ranges", loads, fio_read);
  print("load, scattered", scattered, fio_read);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int which : {SIGINT, SIGTERM, SIGPIPE}) std::signal(which, [](int) { interrupted = 1; });
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_checkpoint: %s\n", e.what());
    return 1;
  }
}
