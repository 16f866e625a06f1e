// Runs a program that pellucid exported, without Python: run_exported PLUGIN PROGRAM RESULT_PREFIX [ARGUMENT.npy ...]
//
// PLUGIN is a shared library that speaks PJRT, PROGRAM a portable artifact of StableHLO; the plugin compiles it for its first
// device. Result i is written to RESULT_PREFIX<i>.npy.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "pjrt.h"

// NumPy's name of an element type, and PJRT's number.
struct ElementType { const char* name; int number; size_t bytes; };
static const ElementType kTypes[] = {
    {"|b1", 1, 1}, {"|i1", 2, 1}, {"<i2", 3, 2}, {"<i4", 4, 4}, {"<i8", 5, 8}, {"|u1", 6, 1}, {"<u2", 7, 2},
    {"<u4", 8, 4}, {"<u8", 9, 8}, {"<f2", 10, 2}, {"<f4", 11, 4}, {"<f8", 12, 8}, {"<c8", 14, 8}, {"<c16", 15, 16},
};

static const ElementType& TypeOf(const std::string& name) {
  for (const auto& type : kTypes)
    if (name == type.name) return type;
  throw std::runtime_error("arrays of dtype " + name + " aren't read: little-endian numbers are");
}

static const ElementType& TypeOf(int number) {
  for (const auto& type : kTypes)
    if (number == type.number) return type;
  throw std::runtime_error("a result has element type " + std::to_string(number) + ", which NumPy has no name for");
}

// Files ---------------------------------------------------------------------------------------------

static std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("there is no file " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Array {
  const ElementType* type;
  std::vector<int64_t> dims;
  std::string data;

  size_t Bytes() const {
    size_t bytes = type->bytes;
    for (int64_t n : dims) bytes *= n;
    return bytes;
  }
};

// A .npy file of version 1: 10 bytes, of which the last two are the header's length, then the header, a dict of Python.
static Array ReadNpy(const std::string& path) {
  std::string file = Contents(path);
  if (file.size() < 10 || file.compare(0, 7, "\x93NUMPY\x01")) throw std::runtime_error(path + " is no .npy file of version 1");
  size_t begin = 10 + uint8_t(file[8]) + 256 * uint8_t(file[9]);
  std::string header = file.substr(10, begin - 10);
  auto after = [&](const std::string& key) {
    size_t at = header.find("'" + key + "':");
    if (at == std::string::npos) throw std::runtime_error(path + " has no " + key);
    return header.substr(at + key.size() + 4);
  };
  if (after("fortran_order").compare(0, 5, "False")) throw std::runtime_error(path + " is in Fortran order");
  std::string descr = after("descr"), shape = after("shape");
  Array array{&TypeOf(descr.substr(1, descr.find('\'', 1) - 1)), {}, file.substr(begin)};
  std::istringstream sizes(shape.substr(1, shape.find(')') - 1));
  for (std::string size; std::getline(sizes, size, ',');)
    if (size.find_first_of("0123456789") != std::string::npos) array.dims.push_back(std::stoll(size));
  if (array.data.size() != array.Bytes()) throw std::runtime_error(path + " doesn't hold what its header says");
  return array;
}

static void WriteNpy(const std::string& path, const Array& array) {
  std::string header = "{'descr': '" + std::string(array.type->name) + "', 'fortran_order': False, 'shape': (";
  for (int64_t n : array.dims) header += std::to_string(n) + ", ";
  header += "), }";
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');  // data begin at a multiple of 64 bytes
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\x01' << '\x00' << char(header.size() & 255) << char(header.size() >> 8) << header << array.data;
  if (!file.flush()) throw std::runtime_error("can't write " + path);
}

// The plugin ----------------------------------------------------------------------------------------

static const pjrt::Api* api = nullptr;

// Calls a function of the table; what it reports is thrown.
template <typename Fields>
static void Call(pjrt::Function function, pjrt::Args<Fields>& args) {
  auto* error = reinterpret_cast<pjrt::Error* (*)(void*)>(api->functions[function])(&args);
  if (error == nullptr) return;
  pjrt::Args<pjrt::OfErrorMessage> message{};
  message.fields.error = error;
  reinterpret_cast<void (*)(void*)>(api->functions[pjrt::kErrorMessage])(&message);
  std::string text(message.fields.text, message.fields.text_size);
  pjrt::Args<pjrt::OfError> destroy{};
  destroy.fields.error = error;
  reinterpret_cast<void (*)(void*)>(api->functions[pjrt::kErrorDestroy])(&destroy);
  throw std::runtime_error(text);
}

template <typename Fields>
static Fields Call(pjrt::Function function, const Fields& fields) {
  pjrt::Args<Fields> args{};
  args.fields = fields;
  Call(function, args);
  return args.fields;
}

static void Load(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  auto* get = reinterpret_cast<const pjrt::Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get == nullptr) throw std::runtime_error(path + " is no PJRT plugin: it has no GetPjrtApi");
  api = get();
  if (api->major != 0) throw std::runtime_error("the plugin speaks version " + std::to_string(api->major) + " of PJRT, and this program 0");
  Call(pjrt::kPluginInitialize, pjrt::Nothing{});
}

static void Wait(pjrt::Event* event) {
  Call(pjrt::kEventAwait, pjrt::OfEvent{event});
  Call(pjrt::kEventDestroy, pjrt::OfEvent{event});
}

static pjrt::LoadedExecutable* Compile(pjrt::Client* client, const std::string& code) {
  // CompileOptionsProto: executable_build_options (3) with num_replicas (4) and num_partitions (5) of 1.
  static const char kOptions[] = "\x1a\x04\x20\x01\x28\x01";
  pjrt::Args<pjrt::Program> program{};
  program.fields = {code.data(), code.size(), "mlir", 4};
  return Call(pjrt::kClientCompile, pjrt::OfCompile{client, &program, kOptions, sizeof(kOptions) - 1, nullptr}).executable;
}

static pjrt::Buffer* ToDevice(pjrt::Client* client, pjrt::Device* device, const Array& array) {
  pjrt::OfBufferFromHost fields{};
  fields.client = client;
  fields.data = array.data.data();
  fields.type = array.type->number;
  fields.dims = array.dims.data();
  fields.dims_size = array.dims.size();
  fields.device = device;
  fields = Call(pjrt::kClientBufferFromHostBuffer, fields);
  Wait(fields.done);
  return fields.buffer;
}

static Array ToHost(pjrt::Buffer* buffer) {
  auto dims = Call(pjrt::kBufferDimensions, pjrt::OfBufferDimensions{buffer, nullptr, 0});
  int type = Call(pjrt::kBufferElementType, pjrt::OfBufferElementType{buffer, 0}).type;
  Array array{&TypeOf(type), {dims.dims, dims.dims + dims.dims_size}, {}};
  array.data.resize(array.Bytes());
  // The device may keep another order of dimensions: the last one is to vary fastest.
  std::vector<int64_t> minor_to_major;
  for (size_t i = array.dims.size(); i-- > 0;) minor_to_major.push_back(i);
  pjrt::Args<pjrt::Layout> layout{};
  layout.fields.tiled.minor_to_major = minor_to_major.data();
  layout.fields.tiled.minor_to_major_size = minor_to_major.size();
  Wait(Call(pjrt::kBufferToHostBuffer, pjrt::OfBufferToHost{buffer, &layout, array.data.data(), array.data.size(), nullptr}).done);
  return array;
}

static std::vector<pjrt::Buffer*> Execute(pjrt::LoadedExecutable* loaded, const std::vector<pjrt::Buffer*>& arguments) {
  auto* executable = Call(pjrt::kLoadedExecutableGetExecutable, pjrt::OfGetExecutable{loaded, nullptr}).executable;
  size_t outputs = Call(pjrt::kExecutableNumOutputs, pjrt::OfExecutableNumOutputs{executable, 0}).outputs;
  Call(pjrt::kExecutableDestroy, pjrt::OfExecutable{executable});
  std::vector<pjrt::Buffer*> results(outputs);
  pjrt::Buffer* const* argument_list = arguments.data();
  pjrt::Buffer** result_list = results.data();
  pjrt::Event* done = nullptr;
  pjrt::Args<pjrt::ExecuteOptions> options{};
  Call(pjrt::kLoadedExecutableExecute,
       pjrt::OfExecute{loaded, &options, &argument_list, 1, arguments.size(), &result_list, &done, nullptr});
  Wait(done);
  return results;
}

static void Run(int argc, char** argv) {
  if (argc < 4) throw std::runtime_error("usage: run_exported PLUGIN PROGRAM RESULT_PREFIX [ARGUMENT.npy ...]");
  Load(argv[1]);
  auto* client = Call(pjrt::kClientCreate, pjrt::OfClientCreate{}).client;
  auto name = Call(pjrt::kClientPlatformName, pjrt::OfClientPlatformName{client, nullptr, 0});
  auto devices = Call(pjrt::kClientAddressableDevices, pjrt::OfClientDevices{client, nullptr, 0});
  std::cout << std::string(name.name, name.name_size) << ", " << devices.devices_size << " device(s), PJRT 0." << api->minor << "\n";
  if (devices.devices_size == 0) throw std::runtime_error("the plugin found no device");
  auto* executable = Compile(client, Contents(argv[2]));
  std::vector<pjrt::Buffer*> arguments;
  for (int i = 4; i < argc; ++i) arguments.push_back(ToDevice(client, devices.devices[0], ReadNpy(argv[i])));
  auto results = Execute(executable, arguments);
  for (size_t i = 0; i < results.size(); ++i) {
    std::string path = argv[3] + std::to_string(i) + ".npy";
    WriteNpy(path, ToHost(results[i]));
    std::cout << path << "\n";
  }
  for (auto* buffer : arguments) Call(pjrt::kBufferDestroy, pjrt::OfBuffer{buffer});
  for (auto* buffer : results) Call(pjrt::kBufferDestroy, pjrt::OfBuffer{buffer});
  Call(pjrt::kLoadedExecutableDestroy, pjrt::OfLoadedExecutable{executable});
  Call(pjrt::kClientDestroy, pjrt::OfClient{client});
}

int main(int argc, char** argv) {
  try {
    Run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
