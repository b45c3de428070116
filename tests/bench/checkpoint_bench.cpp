// Measures durable saves and loads of the native format, in turn with fio on the same file system.
//   bench_checkpoint [FOLDER [MIB]]
// A save is timed from its begin until the checkpoint is synced and committed, fio's write until its last completion.
// Loads and fio's reads bypass the page cache. "One file" is the work of a lane on its file, without a run around it;
// "of a run" is session::save and session::load between the steps of a training on two ranks. All turns are listed,
// because the speed of disks varies.
#include <fmt/format.h>
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
#include "checkpoint/native/native_source.hpp"
#include "core/clock.hpp"
#include "formats/source/scatter_read.hpp"
#include "storage/memory/huge_memory.hpp"
#include "tests/bench/fio.hpp"
#include "tests/small_job.hpp"

namespace {

using namespace troupe;

constexpr uint64_t mib = uint64_t{1} << 20;
constexpr uint64_t tensor_bytes = 32 * mib, staging_block_bytes = 4 * mib, staging_blocks = 16;
constexpr unsigned rounds = 7, fio_depth = 32;

// Set by a signal handler, so that the folder is removed and the huge pages are freed even if the program is
// interrupted or its output is closed.
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
  return out.append(fmt::to_string(number));
}

/// Saves the payload and returns the rate in GB/s. Pieces are staged in blocks; while some blocks are written, the next
/// are staged, as in a writer lane.
double save(const std::filesystem::path& root, std::span<const std::byte> payload, std::span<std::byte> staging) {
  auto& files = storage::real_files();
  std::vector<uint64_t> tickets(staging_blocks, 0);
  const int64_t start = core::now_ns();
  const uint64_t bytes = formats::shard_header_bytes + payload.size();
  auto s = must(checkpoint::checkpoint_save::begin(files, root, 1, bytes));
  auto shard = must(s.create_shard(0, bytes));
  checkpoint::manifest m;
  for (uint64_t at = 0, block = 0; at < payload.size(); at += staging_block_bytes, ++block) {
    if (at % tensor_bytes == 0) {
      auto& t = m.tensors.emplace_back();
      t.name = name_of(at / tensor_bytes);
      t.shape = {static_cast<int64_t>(tensor_bytes / 4)};
    }
    const auto to = staging.subspan(block % staging_blocks * staging_block_bytes, staging_block_bytes);
    must(shard.wait(tickets[block % staging_blocks]));
    const auto digest = checkpoint::stage_piece(payload.subspan(at, staging_block_bytes), to.data());
    tickets[block % staging_blocks] = must(shard.start_block(to));
    m.tensors.back().pieces.push_back(
        {0, at % tensor_bytes / 4, staging_block_bytes / 4, formats::shard_header_bytes + at, digest});
  }
  m.files.push_back(must(shard.finish()));
  must(s.commit(std::move(m)));
  return static_cast<double>(payload.size()) / static_cast<double>(core::now_ns() - start);
}

/// Loads the checkpoint, compares its digests and returns the rate in GB/s.
double load(const std::filesystem::path& root, std::span<std::byte> into) {
  auto& files = storage::real_files();
  const int64_t start = core::now_ns();
  const auto from = checkpoint::source_of(must(checkpoint::open_checkpoint(files, root)));
  constexpr uint64_t count = tensor_bytes / 4;
  std::vector<formats::scattered_tensor> targets;
  for (uint64_t i = 0; i < into.size() / tensor_bytes; ++i)
    targets.push_back({formats::find_tensor(from, name_of(i), formats::tensor_kind::master),
                       {{0, count, core::dtype::f32, &into[i * tensor_bytes]}}});
  const auto report = must(formats::read_scattered(files, from, targets));
  const auto ns = static_cast<double>(core::now_ns() - start);
  if (report.verified_bytes != into.size()) throw std::runtime_error("a load left bytes without their digest compared");
  return static_cast<double>(into.size()) / ns;
}

/// A run that saves and loads: GPT-2 with 124 M parameters on two ranks; a checkpoint with the moments has 1.5 GB.
class training {
 public:
  training()
      : job_(
            "model: {model_type: gpt2, n_layer: 12, n_embd: 768, n_head: 12, n_positions: 1024, vocab_size: 50257, "
            "embd_pdrop: 0, attn_pdrop: 0, resid_pdrop: 0}\n"),
        session_(job_.open({"parallel.data=2", "zero_optimization.stage=3", "data.tokenizer=bytes-as-ids"})) {
    // The first save writes the plan and touches the staging memory.
    must(session_->save({.root = job_.folder().path() / "first"}));
    std::filesystem::remove_all(job_.folder().path() / "first");
  }

  /// Saves and then loads a checkpoint; returns the rates of both in GB/s.
  std::pair<double, double> turn(const std::filesystem::path& root) {
    const int64_t start = core::now_ns();
    const auto folder = must(session_->save({.root = root}));
    const int64_t saved = core::now_ns();
    uint64_t bytes = 0;
    for (const auto& e : std::filesystem::directory_iterator(folder)) bytes += e.file_size();
    const int64_t begin = core::now_ns();
    must(session_->load(folder));
    const int64_t loaded = core::now_ns();
    const auto size = static_cast<double>(bytes);
    return {size / static_cast<double>(saved - start), size / static_cast<double>(loaded - begin)};
  }

 private:
  tests::small_job job_;
  std::unique_ptr<actors::session> session_;
};

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
  training job;
  std::vector<double> fio_write, saves, run_saves, fio_read, loads, run_loads;
  for (unsigned round = 0; round < rounds; ++round) {
    if (interrupted != 0) throw std::runtime_error("interrupted");
    if (room.why_not().empty())
      if (const auto rate = tests::fio_rate(other, "write", fio_depth, from.size())) fio_write.push_back(*rate);
    std::filesystem::remove(other);
    saves.push_back(save(root, from, staging));
    if (room.why_not().empty())
      if (const auto rate = tests::fio_rate(root / "step-00000001" / "shard-00000.bin", "read", fio_depth, from.size()))
        fio_read.push_back(*rate);
    std::memset(loaded.data(), 1, loaded.bytes());
    loads.push_back(load(root, into));
    if (std::memcmp(from.data(), into.data(), into.size()) != 0) throw std::runtime_error("a load gave other bytes");
    std::filesystem::remove_all(root);
    const auto [saved, read] = job.turn(root);
    run_saves.push_back(saved);
    run_loads.push_back(read);
    std::filesystem::remove_all(root);
  }
  print("fio write", fio_write, fio_write);
  print("save, one file", saves, fio_write);
  print("save of a run", run_saves, fio_write);
  print("fio read", fio_read, fio_read);
  print("load, one file", loads, fio_read);
  print("load of a run", run_loads, fio_read);
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
