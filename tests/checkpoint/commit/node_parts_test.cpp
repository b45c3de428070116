// Tests a checkpoint whose files are on the disks of two machines, each of which sees only its own disk.
#include "checkpoint/commit/node_parts.hpp"

#include "checkpoint/convert/open_source.hpp"
#include "formats/report/inspect.hpp"
#include "formats/report/verify.hpp"
#include "formats/source/source_reader.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(node_parts)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

/// A checkpoint of two writers: machine a leads; machine b has the second file, in a subfolder of its folder of parts.
struct two_machines {
  scratch_folder a, b;
  fs::path step;

  two_machines() {
    const auto id = random_save_id();
    const auto folder = check_ok(save_sample(real_files(), a.path(), 3, sample_tensors(3), 2, {}, id));
    step = folder->filename();
    const auto parts = fs::path(node_parts_name) / to_hex(id);
    b.write((step / manifest_file_name).string(), scratch_folder::read(a / (step / manifest_file_name).string()));
    b.write("latest", scratch_folder::read(a / "latest"));
    b.write((parts / "shard-00001.bin").string(), scratch_folder::read(*folder / "shard-00001.bin"));
    fs::remove(*folder / "shard-00001.bin");
    for (const auto* at : {&a, &b})
      at->write((parts / node_writers_name).string(), "shard-00000.bin a\nshard-00001.bin b\n");
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(each_machine_verifies_its_own_files_and_names_those_of_the_others) {
  const two_machines m;
  for (const bool is_first : {true, false})
    for (const fs::path& path : {(is_first ? m.a : m.b).path(), (is_first ? m.a : m.b).path() / m.step}) {
      BOOST_TEST_INFO_SCOPE("is first " << is_first);
      BOOST_TEST_INFO_SCOPE(path);
      const auto source = check_ok(open_source(path));
      const auto report = check_ok(verify_source(real_files(), *source));
      BOOST_TEST(report->damages == 0U);
      BOOST_TEST(report->compared_bytes > 0U);
      BOOST_TEST(report->elsewhere.size() == 1U);
      const auto& [host, files] = *report->elsewhere.begin();
      BOOST_TEST(host == (is_first ? "host b" : "host a"));
      BOOST_TEST(files == std::vector<std::string>{is_first ? "shard-00001.bin" : "shard-00000.bin"},
                 boost::test_tools::per_element());
      BOOST_TEST(inspect_text(*source).find(" on the disk of " + host) != std::string::npos);
      source_reader reader(*source);
      std::vector<std::byte> out(37 * 61 * 4);
      const auto* t = find_tensor(*source, "h.0.weight", tensor_kind::master);
      BOOST_REQUIRE(t != nullptr);
      check_failed(reader.read(*t, 0, 37 * 61, out), error_kind::bad_input, host + " wrote it");
    }
}

BOOST_AUTO_TEST_CASE(a_damage_on_this_machine_is_named_as_ever) {
  const two_machines m;
  const auto file = m.a / (m.step / "shard-00000.bin").string();
  auto bytes = scratch_folder::read(file);
  bytes[5000] = static_cast<char>(bytes[5000] ^ 1);
  fs::remove(file);
  m.a.write((m.step / "shard-00000.bin").string(), bytes);
  const auto source = check_ok(open_source(m.a.path()));
  const auto report = check_ok(verify_source(real_files(), *source));
  BOOST_TEST(report->damages == 1U);
}

BOOST_AUTO_TEST_CASE(without_a_list_of_writers_a_missing_file_is_a_missing_file) {
  const two_machines m;
  fs::remove_all(m.a / node_parts_name);
  check_failed(open_source(m.a.path()), error_kind::bad_input, "shard-00001.bin");
  m.b.write((fs::path(node_parts_name) / to_hex(open_source(m.b.path())->save_id.value()) / node_writers_name).string(),
            "nothing");
  const auto report = check_ok(verify_source(real_files(), *open_source(m.b.path())));
  BOOST_TEST(report->elsewhere.begin()->first == "an unknown host");
}

BOOST_AUTO_TEST_SUITE_END()
