// Tests files in memory that processes share. Properties that all file systems have are tested in
// native_files_test.cpp.
#include "storage/files/memory_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>

#include "checkpoint/commit/open_native.hpp"
#include "checkpoint/commit/retention.hpp"
#include "storage/files/working_folder.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/formats/tensors.hpp"

BOOST_AUTO_TEST_SUITE(memory_files_of_processes)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

core::result<void> write(file_system& files, const fs::path& path, std::string_view text, uint64_t expected = 0) {
  auto file = files.create(path);
  if (!file) return core::fail(file.error());
  if (auto ok = (*file)->expect(expected); !ok) return ok;
  if (auto ok = (*file)->write(std::as_bytes(std::span(text))); !ok) return ok;
  return (*file)->sync();
}

std::string read(file_system& files, const fs::path& path) {
  auto text = read_small_file(files, path, uint64_t{1} << 30);
  BOOST_REQUIRE_MESSAGE(text.has_value(), (text ? "" : text.error().text));
  return *text;
}

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

/// Returns options with which every finished file also appears in `to`, as between two processes.
memory_files_options shared_with(memory_files& to) {
  memory_files_options out;
  out.on_finished = [&to](const shared_file& f) {
    check_ok(to.adopt(f.path, f.descriptor < 0 ? -1 : ::dup(f.descriptor), f.bytes));
  };
  return out;
}

void send_descriptor(int to, int descriptor, uint64_t bytes) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec content{&bytes, sizeof(bytes)};
  msghdr m{};
  m.msg_iov = &content;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof(control);
  auto* const head = CMSG_FIRSTHDR(&m);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &descriptor, sizeof(int));
  if (::sendmsg(to, &m, 0) != sizeof(bytes)) ::_exit(1);
}

std::pair<int, uint64_t> received_descriptor(int from) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  uint64_t bytes = 0;
  iovec content{&bytes, sizeof(bytes)};
  msghdr m{};
  m.msg_iov = &content;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof(control);
  BOOST_REQUIRE(::recvmsg(from, &m, 0) == sizeof(bytes));
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
  return {descriptor, bytes};
}

}  // namespace

BOOST_AUTO_TEST_CASE(memory_of_removed_files_is_used_again_and_only_bytes_of_the_new_one_are_read) {
  memory_files files;
  const std::string large(300'000, 'a');
  check_ok(write(files, "/one", large, large.size()));
  BOOST_TEST(files.use().made == 1U);
  BOOST_TEST(files.use().used == 303'104U);  // used memory is counted in whole pages
  check_ok(files.remove("/one"));
  BOOST_TEST(files.use().used == 0U);
  BOOST_TEST(files.use().kept == 303'104U);
  check_ok(write(files, "/two", std::string(200'000, 'b'), 200'000));
  BOOST_TEST(files.use().made == 1U);
  BOOST_TEST(read(files, "/two") == std::string(200'000, 'b'));
  check_ok(files.remove("/two"));
  check_ok(write(files, "/three", "few"));  // the kept memory is not reused, because it is much larger than the file
  BOOST_TEST(files.use().made == 2U);
  // The kept memory is not reused, because it is too small for the file.
  check_ok(write(files, "/four", std::string(400'000, 'c')));
  BOOST_TEST(files.use().made == 3U);
}

BOOST_AUTO_TEST_CASE(no_more_memory_is_kept_than_was_in_use_at_one_time) {
  memory_files files;
  for (uint64_t n = 1; n <= 40; ++n) {
    BOOST_TEST_INFO_SCOPE("n " << n);
    const std::string text(n * 100'000, 'x');
    check_ok(write(files, "/new", text, text.size()));
    if (n > 1) check_ok(files.remove("/old"));
    check_ok(files.rename("/new", "/old"));
    BOOST_TEST(files.use().kept <= files.use().most_used);
  }
  BOOST_TEST(files.use().most_used < 8'000'000U);
}

BOOST_AUTO_TEST_CASE(a_file_that_is_read_keeps_its_memory_after_it_was_removed) {
  memory_files files;
  check_ok(write(files, "/a", "first"));
  const auto open = check_ok(files.open("/a"));
  check_ok(files.remove("/a"));
  check_ok(write(files, "/a", "other"));
  std::array<std::byte, 5> got{};
  check_ok(read_exactly(**open, "/a", 0, got));
  BOOST_TEST((std::memcmp(got.data(), "first", 5) == 0));
  BOOST_TEST(files.use().made == 2U);
}

BOOST_AUTO_TEST_CASE(a_file_grows_whatever_was_expected_and_has_the_bytes_in_order) {
  memory_files files;
  auto file = check_ok(files.create("/a"));
  check_ok((*file)->expect(10));
  std::string all;
  for (int i = 0; i < 300; ++i) {
    const std::string part(static_cast<size_t>(i * 7 % 1000), static_cast<char>('a' + i % 26));
    all += part;
    check_ok((*file)->write(std::as_bytes(std::span(part))));
  }
  check_ok((*file)->sync());
  BOOST_TEST(read(files, "/a") == all);
}

BOOST_AUTO_TEST_CASE(a_limit_is_kept_and_what_is_beyond_it_names_the_file) {
  memory_files files({.limit_bytes = 1'300'000});
  BOOST_TEST(files.free_bytes("/").value() <= 1'300'000U);
  check_ok(write(files, "/a", "", 600'000));  // the file is empty, but memory was reserved for it
  check_ok(write(files, "/b", "x", 600'000));
  check_failed(write(files, "/c", "x", 600'000), error_kind::no_space, "'/c': memory for files: wanted 602112 bytes");
  check_ok(files.remove("/b"));
  check_ok(files.remove("/a"));
  check_ok(write(files, "/d", "x", 1 << 20));  // memory that was kept for reuse is freed to make room
  BOOST_TEST(files.use().kept == 0U);
}

BOOST_AUTO_TEST_CASE(files_of_another_process_appear_where_they_are_adopted_and_move_with_their_folder) {
  memory_files here, there(shared_with(here));
  for (auto* files : {&here, &there}) check_ok(make_folders(*files, "/run/writing"));
  check_ok(write(there, "/run/writing/a", "of another process"));
  check_ok(write(there, "/run/writing/empty", ""));
  check_ok(write(here, "/run/writing/b", "own"));
  BOOST_TEST(read(here, "/run/writing/a") == "of another process");
  check_ok(here.rename("/run/writing", "/run/done"));
  BOOST_TEST(read(here, "/run/done/a") == "of another process");
  BOOST_TEST(read(here, "/run/done/empty").empty());
  BOOST_TEST(read(here, "/run/done/b") == "own");
  BOOST_TEST(!here.exists("/run/writing/a").value());
  BOOST_TEST(here.list("/run").value().size() == 1U);
  BOOST_TEST(read(there, "/run/writing/a") == "of another process");

  // If a name is used again, it refers to the new file's bytes.
  check_ok(there.remove("/run/writing/a"));
  check_ok(here.make_folder("/run/writing"));
  check_ok(write(there, "/run/writing/a", "again"));
  check_ok(there.remove("/run/writing/a"));
  check_ok(write(there, "/run/writing/a", "and once more"));
  BOOST_TEST(read(here, "/run/writing/a") == "and once more");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_adopted_is_refused_and_its_descriptor_closed) {
  memory_files files;
  check_ok(files.make_folder("/folder"));
  const auto memory = [] {
    auto made = check_ok(storage::shared_memory::create(4096));
    return ::dup(made->descriptor());
  };
  const auto refused = [&](const fs::path& path, int descriptor, uint64_t bytes, std::string_view words) {
    check_failed(files.adopt(path, descriptor, bytes), error_kind::bad_input, std::string(words));
    BOOST_TEST(!is_open(descriptor));
  };
  refused("/none/a", memory(), 10, "cannot adopt '/none/a': No such file or directory");
  refused("/folder", memory(), 10, "cannot adopt '/folder': Is a directory");
  refused("/", memory(), 10, "Is a directory");
  refused("/a", memory(), 4097, "'/a': wanted 4097 bytes of another process's memory, which has 4096");
  refused("/a", ::memfd_create("unsealed", 0), 10,
          "'/a': shared memory: wanted a descriptor of memory with a sealed size");
  check_failed(files.adopt("/a", -1, 10), error_kind::bad_input, "which has 0");
  BOOST_TEST(files.list("/").value().size() == 1U);
  const int good = memory();
  check_ok(files.adopt("/a", good, 10));
  BOOST_TEST(is_open(good));
  check_ok(files.remove("/a"));
  BOOST_TEST(!is_open(good));  // memory that another process allocated is closed, not kept for reuse
}

BOOST_AUTO_TEST_CASE(files_outlive_the_process_that_wrote_them_and_was_killed) {
  int ends[2];
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const pid_t writer = ::fork();
  BOOST_REQUIRE(writer >= 0);
  if (writer == 0) {
    memory_files files({.on_finished = [&](const shared_file& f) { send_descriptor(ends[1], f.descriptor, f.bytes); }});
    (void)write(files, "/a", std::string(1 << 20, 'k'));
    ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  const auto [descriptor, bytes] = received_descriptor(ends[0]);
  int status = 0;
  BOOST_REQUIRE(::waitpid(writer, &status, 0) == writer);
  BOOST_TEST(WIFSIGNALED(status));
  for (const int end : ends) ::close(end);
  memory_files files;
  check_ok(files.adopt("/a", descriptor, bytes));
  BOOST_TEST(read(files, "/a") == std::string(1 << 20, 'k'));
}

BOOST_AUTO_TEST_CASE(checkpoints_are_saved_replaced_and_opened_as_a_source_that_any_reader_reads) {
  memory_files files;
  const fs::path at = "/runs/memory";
  uint64_t made_by_two = 0;
  for (uint64_t step = 1; step <= 6; ++step) {
    BOOST_TEST_INFO_SCOPE("step " << step);
    const auto samples = sample_tensors(step);
    check_ok(save_sample(files, at, step, samples, 3));
    check_ok(apply_retention(files, at, {1, 0}));
    check_newest(files, at, step, samples);
    BOOST_TEST(files.list(at).value().size() == 2U);  // the entries are the checkpoint and `latest`
    if (step == 3) made_by_two = files.use().made;

    const auto source = check_ok(open_native(files, at));
    BOOST_TEST(source->run.steps.value() == step);
    for (const auto& s : samples) {
      const auto* tensor = find_tensor(*source, s.entry.name, s.entry.kind, s.entry.moment);
      BOOST_REQUIRE(tensor != nullptr);
      std::vector<std::byte> got(s.data.size());
      const std::vector<scattered_tensor> wanted{
          {tensor, {{0, core::numel_of(tensor->shape), tensor->type, got.data()}}}};
      check_ok(read_scattered(real_files(), *source, wanted));
      BOOST_TEST((got == s.data));
    }
    // If the checkpoint is removed meanwhile, the read is refused and returns no bytes of another checkpoint.
    if (step == 6) {
      check_ok(save_sample(files, at, 7, samples, 3));
      check_ok(apply_retention(files, at, {1, 0}));
      check_failed(verify_source(real_files(), *source).and_then([](const verify_report& r) -> core::result<void> {
        if (r.damages == 0) return {};
        return core::fail(error_kind::bad_input, r.listed.front().text);
      }),
                   error_kind::bad_input, "No such file or directory");
    }
  }
  BOOST_TEST(files.use().made == made_by_two);  // saves after the second reuse memory and touch no new page
}

BOOST_AUTO_TEST_CASE(several_threads_write_read_and_remove_at_once) {
  memory_files files;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&files, t] {
        const fs::path own = fmt::format("/{}", t);
        for (int i = 0; i < 100; ++i) {
          const std::string text(static_cast<size_t>(1000 + 997 * i), static_cast<char>('a' + (t + i) % 26));
          if (!write(files, own, text) || read_small_file(files, own, 1 << 20) != text || !files.remove(own))
            BOOST_ERROR("thread " << t << ", file " << i);
        }
      });
  }
  BOOST_TEST(files.use().used == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
