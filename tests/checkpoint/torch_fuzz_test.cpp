// Damaged files of torch.save, and hostile ones: each opens and can be walked to its last value, or is refused; none
// allocates beyond the stated multiple of its pickle, and nothing is executed.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "checkpoint/deepspeed_source.hpp"
#include "checkpoint/source_reader.hpp"
#include "checkpoint/torch_archive.hpp"
#include "checkpoint/zip_writer.hpp"
#include "core/tensor_view.hpp"
#include "tests/checkpoint/counted_memory.hpp"
#include "tests/checkpoint/tensors.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(TROUPE_SOURCE_DIR) / "tests/checkpoint/fixtures/deepspeed";
constexpr size_t constant_bytes = 256 * 1024;

size_t mutations() {
  const char* wanted = std::getenv("TROUPE_MUTATIONS");
  return wanted == nullptr ? 1000 : std::max<size_t>(1000, std::strtoull(wanted, nullptr, 10));
}

/// One to four damages: bits, opcodes, lengths of ones, cuts, doubled stretches.
std::string mutated(std::string text, std::mt19937_64& random) {
  static const std::string telling =
      "(.0123NJKMGXabcd}ehjl]qrRsut)QBC\x80\x81\x85\x86\x87\x8a\x8b\x8c\x93\x94\x95PK\1\2";
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (size_t damages = 1 + below(4); damages > 0 && text.size() > 8; --damages) {
    const size_t at = below(text.size());
    switch (below(6)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text[at] = telling[below(telling.size())];
        break;
      case 2:
        for (size_t i = at; i < std::min(text.size(), at + 1 + below(8)); ++i) text[i] = '\xFF';
        break;
      case 3:
        text.resize(at);
        break;
      case 4:
        text.insert(below(text.size()), text.substr(at, below(64)));
        break;
      default:
        text.erase(at, below(32));
    }
  }
  return text;
}

/// Looks at everything that a reader may look at.
size_t walked(const torch_archive& file) {
  size_t seen = file.unknown_globals().size();
  for (pickle_ref v = 0; v < file.tree().size(); ++v) {
    if (const auto tensor = file.tensor(v); tensor && tensor->numel > 0 && tensor->is_contiguous()) {
      const auto bytes = file.file_bytes().subspan(tensor->begin, tensor->numel * core::size_of(tensor->type));
      seen += std::to_integer<size_t>(bytes.front()) + std::to_integer<size_t>(bytes.back());
    }
    seen += file.shape(v).has_value() + file.integer(v).has_value() + file.tree().find(v, "x").has_value();
  }
  return seen;
}

void damage(const fs::path& valid, uint64_t seed) {
  const scratch_folder at;
  const std::string good = scratch_folder::read(valid);
  std::mt19937_64 random(seed);
  size_t opened = 0, seen = 0;
  for (size_t i = 0; i < mutations(); ++i) {
    const std::string broken = mutated(good, random);
    fs::remove(at / "broken.pt");  // writing over a file makes some file systems wait for the disk
    at.write("broken.pt", broken);
    const memory_mark mark;
    {
      const auto file = torch_archive::open(at / "broken.pt");
      if (file) {
        ++opened;
        seen += walked(*file);
      }
    }
    BOOST_REQUIRE_MESSAGE(mark.taken() <= broken.size() * 4 + constant_bytes,
                          "mutation " << i << " took " << mark.taken() << " bytes for a file of " << broken.size());
  }
  BOOST_TEST(opened > 0U);
  BOOST_TEST(opened < mutations());
  BOOST_TEST(seen > 0U);
}

std::span<const std::byte> as_bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

BOOST_AUTO_TEST_SUITE(torch_fuzz)

BOOST_AUTO_TEST_CASE(damaged_zip_archives_are_read_or_refused) {
  damage(fixtures / "stage2_bf16/step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt", 1);
}

BOOST_AUTO_TEST_CASE(damaged_legacy_streams_are_read_or_refused) {
  damage(fixtures / "stage2_fp32_legacy/step2/mp_rank_00_model_states.pt", 2);
}

BOOST_AUTO_TEST_CASE(damaged_pickles_are_read_or_refused) {
  const auto file = torch_archive::open(fixtures / "stage3_bf16/step2/zero_pp_rank_0_mp_rank_00_model_states.pt");
  check_ok(file);
  const auto bytes = file->file_bytes();
  const auto entries = read_zip(bytes);
  check_ok(entries);
  const auto* entry = find_entry(*entries, "zero_pp_rank_0_mp_rank_00_model_states/data.pkl");
  BOOST_REQUIRE(entry != nullptr);
  const std::string good(reinterpret_cast<const char*>(bytes.data()) + entry->begin, entry->bytes);
  std::mt19937_64 random(3);
  size_t read = 0;
  for (size_t i = 0; i < mutations(); ++i) {
    const std::string broken = mutated(good, random);
    const memory_mark mark;
    read += read_pickle(as_bytes_of(broken)).has_value();
    BOOST_REQUIRE(mark.taken() <= broken.size() * max_pickle_memory_factor + constant_bytes);
  }
  BOOST_TEST(read < mutations());
}

BOOST_AUTO_TEST_CASE(damaged_folders_are_indexed_or_refused) {
  const scratch_folder at;
  std::mt19937_64 random(4);
  size_t indexed = 0;
  for (const char* name : {"stage2_bf16", "stage3_fp32"}) {
    fs::copy(fixtures / name, at / name, fs::copy_options::recursive);
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(at / name / "step2")) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (size_t i = 0; i < mutations() / 2; ++i) {
      const auto& victim = files[i % files.size()];
      const std::string good = scratch_folder::read(victim);
      fs::remove(victim);
      at.write(fs::relative(victim, at / "").string(), mutated(good, random));
      const auto index = read_deepspeed_source(at / name);
      if (index && ++indexed % 8 == 0) {
        source_reader reader(*index);
        for (const auto& t : index->tensors) {
          std::vector<std::byte> bytes(core::numel_of(t.shape) * core::size_of(t.type));
          check_ok(reader.read(t, 0, core::numel_of(t.shape), bytes));
        }
      }
      fs::remove(victim);
      at.write(fs::relative(victim, at / "").string(), good);
    }
  }
  BOOST_TEST(indexed > 0U);
}

BOOST_AUTO_TEST_CASE(the_memory_of_the_worst_pickle_is_as_stated) {
  const std::string worst = "\x80\x02(" + std::string(200'000, ']') + "t.";
  const memory_mark mark;
  check_ok(read_pickle(as_bytes_of(worst)));
  BOOST_TEST(mark.taken() <= worst.size() * max_pickle_memory_factor + constant_bytes);
}

BOOST_AUTO_TEST_CASE(a_pickle_that_would_run_a_command_opens_and_does_nothing) {
  const scratch_folder at;
  const std::string command = "touch " + (at / "pwned").string();
  const std::string pickle = std::string("\x80\x02}X\1\0\0\0wcposix\nsystem\nX", 24) +
                             static_cast<char>(command.size()) + std::string(3, '\0') + command + "\x85Rs.";
  auto zip = zip_writer::create(at / "evil.pt");
  check_ok(zip->add("archive/data.pkl", as_bytes_of(pickle)));
  check_ok(zip->commit());
  const auto file = torch_archive::open(at / "evil.pt");
  check_ok(file);
  BOOST_TEST(file->unknown_globals() == std::vector<std::string>{"posix.system"});
  const auto value = file->tree().find(file->root(), "w");
  BOOST_REQUIRE(value.has_value());
  check_failed(file->tensor(*value), core::error_kind::bad_input, "posix.system");
  BOOST_TEST(!fs::exists(at / "pwned"));
}

BOOST_AUTO_TEST_SUITE_END()
