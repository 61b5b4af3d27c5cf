#include "tessera/support/npz.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/support/files.h"
#include "tessera/support/mapped_file.h"
#include "tessera/support/zip.h"
#include "tests/testing/testing.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string temp_file(const std::string& name) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder = fs::path(::testing::TempDir()) / (std::string("npz_") + test->name());
  fs::create_directories(folder);
  return (folder / name).string();
}

// A .npy file of the given version whose header is `text`.
std::string npy(int version, const std::string& text, const std::string& data) {
  std::string out = "\x93NUMPY";
  out.push_back(static_cast<char>(version));
  out.push_back('\0');
  const int length_bytes = version == 1 ? 2 : 4;
  for (int i = 0; i < length_bytes; ++i) {
    out.push_back(static_cast<char>(text.size() >> (8 * i) & 0xff));
  }
  return out + text + data;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

NamedTensors sample() {
  Rng rng(1);
  NamedTensors tensors;
  for (const DType t :
       {DType::kBool, DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32, DType::kU32,
        DType::kI64, DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    tensors.push_back({std::string("x_") + to_text(t), random_tensor(t, {3, 5}, rng)});
  }
  tensors.push_back({"scalar", random_tensor(DType::kF32, {}, rng)});
  tensors.push_back({"vector", random_tensor(DType::kI64, {7}, rng)});
  tensors.push_back({"empty", HostTensor(DType::kF32, {4, 0, 2})});
  tensors.push_back({"group/with.dots", HostTensor(DType::kF32, {1000})});  // deflates well
  return tensors;
}

void expect_same(const NamedTensors& got, const NamedTensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, want[i].name);
    EXPECT_EQ(testing::mismatch(got[i].tensor, want[i].tensor, 0), "") << want[i].name;
  }
}

TEST(Npz, RoundTripStoredAndDeflated) {
  const NamedTensors want = sample();
  std::size_t sizes[2] = {0, 0};
  for (const bool compress : {false, true}) {
    const std::string path = temp_file("t.npz");
    const auto written = write_npz(path, want, compress);
    ASSERT_TRUE(written.ok()) << written.error().message;
    const auto got = read_npz(path);
    ASSERT_TRUE(got.ok()) << got.error().message;
    expect_same(*got, want);
    sizes[compress ? 1 : 0] = fs::file_size(path);
  }
  EXPECT_LT(sizes[1], sizes[0]);
}

TEST(Npz, ViewsReadInPlace) {
  const std::string path = temp_file("views.npz");
  HostTensor a(DType::kF32, {3, 2}), b(DType::kI16, {5}), c(DType::kU8, {0});
  a.set_float(5, 2.5);
  b.set_int(4, -7);
  ASSERT_TRUE(write_npz(path, {{"a", a}, {"long name", b}, {"c", c}}).ok());
  const Result<MappedFile> file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  const Result<std::vector<NpyView>> views = view_npz(file->bytes());
  ASSERT_TRUE(views.ok()) << views.error().message;
  ASSERT_EQ(views->size(), 3u);
  EXPECT_EQ((*views)[0].shape, (Shape{3, 2}));
  EXPECT_EQ(static_cast<const float*>((*views)[0].data)[5], 2.5f);
  EXPECT_EQ((*views)[1].name, "long name");
  EXPECT_EQ((*views)[1].dtype, DType::kI16);
  EXPECT_EQ(static_cast<const std::int16_t*>((*views)[1].data)[4], -7);
  for (const NpyView& view : *views) {
    EXPECT_EQ((static_cast<const char*>(view.data) - file->bytes().data()) % 64, 0) << view.name;
  }
}

TEST(Npz, ViewsRefuseWhatIsNotInPlace) {
  const std::string path = temp_file("packed.npz");
  ASSERT_TRUE(write_npz(path, {{"a", HostTensor(DType::kF32, {1000})}}, true).ok());
  const std::string packed = read_file(path).value();
  EXPECT_EQ(view_npz(packed).error().code, ErrorCode::kUnsupported);
  const std::string fortran =
      npy(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", std::string(16, '\0'));
  EXPECT_EQ(view_npz(zip_bytes({{"a.npy", fortran}})).error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(view_npz(std::string_view(packed).substr(0, packed.size() / 2)).ok());
}

TEST(Npz, SixtyFourBitFields) {
  std::vector<ZipEntry> entries;
  for (const NamedTensor& t : sample()) entries.push_back({t.name + ".npy", npy_bytes(t.tensor)});
  const auto got = parse_npz(zip_bytes(entries, {.compress = true, .zip64 = true}));
  ASSERT_TRUE(got.ok()) << got.error().message;
  expect_same(*got, sample());
}

TEST(Npz, TwoTensorsOfOneName) {
  const NamedTensors twice = {{"x", HostTensor(DType::kF32, {1})},
                              {"x", HostTensor(DType::kF32, {1})}};
  const auto written = write_npz(temp_file("t.npz"), twice);
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.error().message.find("two tensors named 'x'"), std::string::npos);
}

TEST(Npz, EveryCutIsRefused) {
  const std::string whole =
      zip_bytes({{"x.npy", npy_bytes(sample()[0].tensor)}}, {.compress = false, .zip64 = true});
  ASSERT_TRUE(parse_npz(whole).ok());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(parse_npz(std::string_view(whole).substr(0, n)).ok()) << n;
  }
}

// No flipped byte may crash, hang or take much memory; in the data it must be noticed.
TEST(Npz, EveryFlippedByteIsSurvived) {
  for (const bool compress : {false, true}) {
    const HostTensor tensor(DType::kF32, {64});
    std::string bytes = zip_bytes({{"x.npy", npy_bytes(tensor)}}, {.compress = compress});
    for (char& c : bytes) {
      for (const int mask : {0x01, 0x80, 0xff}) {
        c = static_cast<char>(c ^ mask);
        const auto got = parse_npz(bytes);
        if (got.ok() && got->size() == 1) {
          EXPECT_EQ(testing::mismatch((*got)[0].tensor, tensor, 0), "");
        }
        c = static_cast<char>(c ^ mask);
      }
    }
  }
}

TEST(Npz, MissingFileAndFolder) {
  const auto absent = read_npz(temp_file("absent.npz"));
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kIo);
  EXPECT_NE(absent.error().message.find("absent.npz"), std::string::npos);
  const auto folder = read_npz(::testing::TempDir());
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code, ErrorCode::kIo);
}

TEST(Npz, NotAnArchiveNamesTheFile) {
  const std::string path = temp_file("t.npz");
  std::ofstream(path) << "hello";
  const auto got = read_npz(path);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(got.error().message.find(path), std::string::npos) << got.error().message;
}

TEST(Npy, AllVersions) {
  const std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }\n";
  for (const int version : {1, 2, 3}) {
    const auto t = parse_npy(npy(version, header, bytes_of<std::int32_t>({1, -2, 3, 4})));
    ASSERT_TRUE(t.ok()) << t.error().message;
    EXPECT_EQ(t->shape(), (Shape{2, 2}));
    EXPECT_EQ(t->get_int(1), -2);
  }
  EXPECT_EQ(parse_npy(npy(4, header, bytes_of<std::int32_t>({1, 2, 3, 4}))).error().code,
            ErrorCode::kUnsupported);
}

TEST(Npy, FortranOrderAndBigEndian) {
  const auto t = parse_npy(npy(1, "{'shape': (2, 3), 'fortran_order': True, 'descr': '>i2'}",
                               std::string("\0\1\0\4\0\2\0\5\0\3\0\6", 12)));
  ASSERT_TRUE(t.ok()) << t.error().message;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(t->get_int(i), i + 1);
  const auto cube = parse_npy(npy(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2, 2,)}",
                                  std::string("\0\4\2\6\1\5\3\7", 8)));
  ASSERT_TRUE(cube.ok()) << cube.error().message;
  for (int i = 0; i < 8; ++i) EXPECT_EQ(cube->get_int(i), i);
}

TEST(Npy, WrittenHeaderIsNumpysOwn) {
  const std::string bytes = npy_bytes(HostTensor(DType::kF32, {3}));
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(bytes.substr(10, 58), "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } ");
  EXPECT_EQ(bytes[127], '\n');
  EXPECT_EQ(bytes.size(), 128u + 12u);
}

TEST(Npy, FileRoundTrip) {
  Rng rng(2);
  const HostTensor want = random_tensor(DType::kF64, {2, 1, 3}, rng);
  const std::string path = temp_file("t.npy");
  ASSERT_TRUE(write_npy(path, want).ok());
  const auto got = read_npy(path);
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(testing::mismatch(*got, want, 0), "");
}

struct BadHeader {
  const char* text;
  ErrorCode code;
  const char* said;
};

TEST(Npy, BadHeaders) {
  const BadHeader cases[] = {
      {"", ErrorCode::kInvalidArgument, "'{' expected"},
      {"{'descr': '<f4', 'fortran_order': False}", ErrorCode::kInvalidArgument, "missing"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", ErrorCode::kInvalidArgument,
       "True or False"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", ErrorCode::kUnsupported, "<c8"},
      {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", ErrorCode::kUnsupported, "''"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", ErrorCode::kUnsupported, "|O"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", ErrorCode::kUnsupported,
       "structured"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", ErrorCode::kInvalidArgument,
       "negative"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
       ErrorCode::kInvalidArgument, "bad shape"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
       ErrorCode::kInvalidArgument, "too large"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", ErrorCode::kInvalidArgument,
       "4 bytes of data where f32 2 takes 8"},
      {"{'descr': '<f4', 'what': 1}", ErrorCode::kInvalidArgument, "'what'"},
      {"{'descr", ErrorCode::kInvalidArgument, "does not end"},
  };
  for (const BadHeader& c : cases) {
    const auto t = parse_npy(npy(1, c.text, std::string(4, '\0')));
    ASSERT_FALSE(t.ok()) << c.text;
    EXPECT_EQ(t.error().code, c.code) << c.text;
    EXPECT_NE(t.error().message.find(c.said), std::string::npos) << t.error().message;
  }
}

TEST(Zip, ImpossibleSizeTakesNoMemory) {
  std::string bytes = zip_bytes({{"x", std::string(1000, 'a')}}, {.compress = true});
  // The uncompressed size in the directory, 24 bytes into its header.
  const std::size_t directory = bytes.find("PK\x01\x02");
  ASSERT_NE(directory, std::string::npos);
  std::memcpy(bytes.data() + directory + 24, "\xfe\xff\xff\xff", 4);
  const auto got = parse_zip(bytes);
  ASSERT_FALSE(got.ok());
  EXPECT_NE(got.error().message.find("impossible size"), std::string::npos);
}

TEST(Zip, EntriesHaveALimitTogether) {
  const std::string bytes =
      zip_bytes({{"x", std::string(600, 'a')}, {"y", std::string(600, 'b')}}, {.compress = true});
  EXPECT_TRUE(parse_zip(bytes, 1200).ok());
  const auto got = parse_zip(bytes, 1199);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(got.error().message, "zip: the entries take more than 1199 bytes");
}

// A directory that lists one entry a hundred times.
TEST(Zip, EntriesMayNotShareTheirData) {
  const std::string one = zip_bytes({{"x", std::string(5000, 'a')}});
  const std::size_t directory = one.rfind("PK\x01\x02"), end = one.rfind("PK\x05\x06");
  std::string bytes = one.substr(0, end);
  for (int i = 1; i < 100; ++i) bytes += one.substr(directory, end - directory);
  bytes += one.substr(end);
  for (const std::size_t at : {std::size_t{8}, std::size_t{10}}) {
    bytes[bytes.size() - 22 + at] = 100;
  }
  const auto got = parse_zip(bytes);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().message, "zip: entries overlap");
  EXPECT_FALSE(view_zip(bytes).ok());
}

TEST(MappedFile, TheWayWithoutLinksTakesNone) {
  std::string folder = ::testing::TempDir() + "tessera_links_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  fs::create_directory(folder + "/in");
  std::ofstream(folder + "/in/data") << "1234";
  fs::create_symlink("in/data", folder + "/link");
  fs::create_directory_symlink("in", folder + "/folder");
  const int at = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_GE(at, 0);
  for (const char* good : {"in/data", "./in//data"}) {
    const int fd = open_without_links(at, good);
    EXPECT_GE(fd, 0) << good;
    ::close(fd);
  }
  for (const char* bad : {"link", "folder/data", "in/../in/data", "in/data/more", "absent"}) {
    EXPECT_EQ(open_without_links(at, bad), -1) << bad;
    EXPECT_NE(errno, 0);
  }
  EXPECT_EQ(open_without_links(at, "link"), -1);
  EXPECT_EQ(errno, ELOOP);
  ::close(at);
  const auto whole = MappedFile::open_inside(folder, "in/data");
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_EQ(whole->bytes(), "1234");
  fs::remove_all(folder);
}

TEST(Files, WriteKeepsTheOldContentWhenItFails) {
  const std::string path = temp_file("f");
  ASSERT_TRUE(write_file(path, {"old"}).ok());
  EXPECT_EQ(*read_file(path), "old");
  ASSERT_TRUE(write_file(path, {"ne", "w"}).ok());
  EXPECT_EQ(*read_file(path), "new");
  const auto bad = write_file(path + "/below", {"x"});
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, ErrorCode::kIo);
  EXPECT_EQ(*read_file(path), "new");
  EXPECT_EQ(
      std::distance(fs::directory_iterator(fs::path(path).parent_path()), fs::directory_iterator()),
      1);
}

TEST(Files, FullDisk) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const auto full = write_file("/dev/full", {"x"});
  ASSERT_FALSE(full.ok());
  EXPECT_NE(full.error().message.find("No space left"), std::string::npos);
  EXPECT_TRUE(write_file("/dev/null", {"x"}).ok());
}

}  // namespace
}  // namespace tessera
