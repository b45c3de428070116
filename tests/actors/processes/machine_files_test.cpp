#include "actors/processes/machine_files.hpp"

#include <fmt/format.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>
#include <thread>

#include "actors/processes/node_local_files.hpp"
#include "fabric/wire/notes.hpp"
#include "storage/files/memory_files.hpp"
#include "tests/check_ok.hpp"
#include "tests/fakes/wires.hpp"

BOOST_AUTO_TEST_SUITE(machine_files)

using namespace troupe;
using namespace troupe::actors;
using troupe::tests::check_error;
using troupe::tests::check_failed;

namespace {

/// Two processes on two machines, with the links between them.
struct two_machines {
  std::shared_ptr<fabric::modelled_wires> wires = std::make_shared<fabric::modelled_wires>(1);
  struct side {
    std::shared_ptr<fabric::byte_mover> mover;
    std::shared_ptr<fabric::note_switch> notes;
    storage::memory_files files;
    std::unique_ptr<machine_files> wire;
  };
  side a, b;
  std::atomic<bool> ends{false};
  std::thread pump;

  two_machines() {
    join(a, 0);
    join(b, 1);
    pump = std::thread([this] {
      while (!ends)
        if (!wires->step()) std::this_thread::yield();
    });
  }
  ~two_machines() {
    ends = true;
    pump.join();
    for (auto* s : {&a, &b}) s->wire->end();
  }
  void join(side& s, uint32_t place) {
    s.mover = wires->at(place);
    s.notes = fabric::note_switch::make(*s.mover);
    s.wire = std::make_unique<machine_files>(s.mover, place);
    s.notes->add(machine_files::notes, [&s](uint32_t from, std::string_view text) { s.wire->hear(from, text); });
  }
};

std::vector<std::byte> drawn(uint64_t bytes) {
  std::mt19937_64 random(bytes);
  std::vector<std::byte> out(bytes);
  for (auto& x : out) x = static_cast<std::byte>(random());
  return out;
}

void write(storage::file_system& files, const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
  auto file = files.create(path);
  BOOST_TEST_REQUIRE(file.has_value());
  BOOST_TEST_REQUIRE((*file)->write(bytes).has_value());
  BOOST_TEST_REQUIRE((*file)->sync().has_value());
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_of_any_length_gets_a_copy_with_its_folders) {
  two_machines m;
  m.b.wire->serve(m.b.files);
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, (uint64_t{4} << 20), (uint64_t{9} << 20) + 5}) {
    BOOST_TEST_INFO_SCOPE("bytes " << bytes);
    const std::string path = fmt::format("/saves-{}", bytes);
    const auto content = drawn(bytes);
    write(m.a.files, path, content);
    BOOST_TEST_REQUIRE(m.a.wire->copy(1, m.a.files, path).has_value());
    const auto got = m.b.files.open(path);
    BOOST_TEST_REQUIRE(got.has_value());
    std::vector<std::byte> read(bytes);
    BOOST_TEST((*got)->bytes() == bytes);
    BOOST_TEST(storage::read_exactly(**got, path, 0, read).has_value());
    BOOST_TEST((read == content));
  }
}

BOOST_AUTO_TEST_CASE(a_range_is_read_once_its_holder_serves) {
  two_machines m;
  const auto content = drawn(10'000'001);
  write(m.b.files, "/x", content);
  std::vector<std::byte> part(5'000'003);
  core::result<void> did;
  std::thread reads([&] { did = m.a.wire->read(1, "/x", 4'999'990, part); });
  m.b.wire->serve(m.b.files);
  reads.join();
  BOOST_TEST_REQUIRE(did.has_value());
  BOOST_TEST((std::memcmp(part.data(), content.data() + 4'999'990, part.size()) == 0));
}

BOOST_AUTO_TEST_CASE(what_is_not_there_or_too_short_is_named) {
  two_machines m;
  m.b.wire->serve(m.b.files);
  std::vector<std::byte> part(10);
  check_failed(m.a.wire->read(1, "/none", 0, part), "/none");
  write(m.b.files, "/short", drawn(5));
  check_failed(m.a.wire->read(1, "/short", 0, part), "wanted 10 bytes, got 5");
}

BOOST_AUTO_TEST_CASE(a_copy_that_cannot_be_written_is_refused_by_its_taker_and_the_next_one_is_taken) {
  two_machines m;
  m.b.wire->serve(m.b.files);
  write(m.a.files, "/x", drawn(100));
  write(m.b.files, "/x", drawn(1));
  const auto taken = m.a.wire->copy(1, m.a.files, "/x");
  BOOST_TEST_REQUIRE(!taken.has_value());
  write(m.a.files, "/y", drawn(100));
  BOOST_TEST(m.a.wire->copy(1, m.a.files, "/y").has_value());
}

BOOST_AUTO_TEST_CASE(the_loss_of_the_other_or_the_end_of_the_term_ends_whoever_waits) {
  for (const bool is_lost : {true, false}) {
    BOOST_TEST_INFO_SCOPE("is lost " << is_lost);
    two_machines m;  // process b serves no files, so the read waits until the link ends
    std::vector<std::byte> part(10);
    core::result<void> did;
    std::thread reads([&] { did = m.a.wire->read(1, "/x", 0, part); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const core::error why{core::error_kind::peer_lost, "process 1 has gone"};
    if (is_lost)
      m.a.wire->lose(1, why);
    else
      m.a.wire->stop(why);
    reads.join();
    BOOST_TEST_REQUIRE(!did.has_value());
    BOOST_TEST(did.error().text == why.text);
  }
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_a_process_that_is_lost_already_or_for_itself) {
  two_machines m;
  std::vector<std::byte> out(8);
  m.a.wire->lose(1, {core::error_kind::peer_lost, "place 1 is lost"});
  check_error(m.a.wire->read(1, "/x", 0, out), "place 1 is lost");
  check_error(m.b.wire->read(1, "/x", 0, out), "'/x': wanted a file of another process, got this one's place");
}

BOOST_AUTO_TEST_CASE(a_machine_that_is_lost_while_its_checkpoints_are_compared_is_not_passed_over) {
  for (const std::string last : {"latest", "manifest.json"}) {
    BOOST_TEST_INFO_SCOPE("lost at " << last);
    two_machines m;
    BOOST_TEST_REQUIRE(m.b.files.make_folder("/checkpoints").has_value());
    const std::string_view name = "step-00000120\n";
    const auto bytes = std::as_bytes(std::span(name));
    write(m.b.files, "/checkpoints/latest", {bytes.begin(), bytes.end()});
    m.b.wire->serve(m.b.files, [&](const std::string& path) {
      if (path.ends_with(last)) m.a.wire->lose(1, {core::error_kind::peer_lost, "process 1 has gone"});
      return m.b.files.open(path.substr(actors::machine_files::disk_mark.size()));
    });
    const std::shared_ptr<actors::machine_files> elsewhere(std::shared_ptr<void>(), m.a.wire.get());
    const node_local_files files("a", {{1, "b", false}}, elsewhere);
    check_failed(files.check_others("/checkpoints"), core::error_kind::peer_lost, "process 1 has gone");
  }
}

BOOST_AUTO_TEST_SUITE_END()
