// The part of PJRT's C interface that run_exported.cc uses: places in the table of functions, and their arguments.
//
// A plugin is a shared library with one symbol, GetPjrtApi, which gives the table. jaxlib brings the headers of XLA's foreign
// functions but not this one; its whole form is xla/pjrt/c/pjrt_c_api.h of github.com/openxla/xla. Within major version 0 places
// and fields stay as they are, and new ones come behind them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pjrt {

struct Error;
struct Event;
struct Client;
struct Device;
struct Executable;
struct LoadedExecutable;
struct Buffer;

// The table. Each function takes a pointer to its arguments and gives an error, or null.
struct Api {
  size_t size;
  void* extensions;
  size_t version_size;
  void* version_extensions;
  int major, minor;
  void* functions[];
};

enum Function {
  kErrorDestroy = 0,
  kErrorMessage = 1,
  kPluginInitialize = 3,
  kEventDestroy = 5,
  kEventAwait = 8,
  kClientCreate = 10,
  kClientDestroy = 11,
  kClientPlatformName = 12,
  kClientAddressableDevices = 16,
  kClientCompile = 20,
  kClientBufferFromHostBuffer = 22,
  kExecutableDestroy = 40,
  kExecutableNumOutputs = 44,
  kLoadedExecutableDestroy = 50,
  kLoadedExecutableGetExecutable = 51,
  kLoadedExecutableExecute = 55,
  kBufferDestroy = 58,
  kBufferElementType = 59,
  kBufferDimensions = 60,
  kBufferToHostBuffer = 70,
};

// Arguments begin with their size, by which a plugin knows how many fields the caller has. A plugin refuses fewer than its own
// version has, so that zeros stand behind ours for what later versions ask: none of it is needed here.
template <typename Fields>
struct Args {
  size_t size = sizeof(Args);
  void* extensions = nullptr;
  Fields fields = {};
  void* later[16] = {};
};

struct OfError { Error* error; };
struct OfErrorMessage { const Error* error; const char* text; size_t text_size; };
struct Nothing {};
struct OfEvent { Event* event; };
struct OfClientCreate {
  void* options;
  size_t options_size;
  void *get_callback, *get_argument, *put_callback, *put_argument;  // what processes of one job share
  Client* client;
};
struct OfClient { Client* client; };
struct OfClientPlatformName { Client* client; const char* name; size_t name_size; };
struct OfClientDevices { Client* client; Device** devices; size_t devices_size; };
struct Program { const char* code; size_t code_size; const char* format; size_t format_size; };
struct OfCompile {
  Client* client;
  Args<Program>* program;
  const char* options;  // a serialized xla.CompileOptionsProto
  size_t options_size;
  LoadedExecutable* executable;
};
struct OfBufferFromHost {
  Client* client;
  const void* data;
  int type;
  const int64_t* dims;
  size_t dims_size;
  const int64_t* strides;
  size_t strides_size;
  int semantics;  // 0: the data are read before the call returns
  Device* device;
  void* memory;
  void* layout;
  Event* done;
  Buffer* buffer;
};
struct OfExecutable { Executable* executable; };
struct OfExecutableNumOutputs { Executable* executable; size_t outputs; };
struct OfLoadedExecutable { LoadedExecutable* executable; };
struct OfGetExecutable { LoadedExecutable* loaded; Executable* executable; };
struct ExecuteOptions { void *send, *receive; size_t sends, receives; int launch_id; };
struct OfExecute {
  LoadedExecutable* executable;
  Args<ExecuteOptions>* options;
  Buffer* const* const* arguments;  // [device][argument]
  size_t devices, arguments_size;
  Buffer** const* results;  // [device][result]
  Event** done;             // [device]
  Device* device;
};
struct OfBuffer { Buffer* buffer; };
struct OfBufferElementType { Buffer* buffer; int type; };
struct OfBufferDimensions { Buffer* buffer; const int64_t* dims; size_t dims_size; };
struct TiledLayout {
  size_t size = sizeof(TiledLayout);
  void* extensions = nullptr;
  const int64_t* minor_to_major = nullptr;
  size_t minor_to_major_size = 0;
  const int64_t* tiles = nullptr;
  const size_t* tile_sizes = nullptr;
  size_t tiles_size = 0;
};
struct Layout { TiledLayout tiled; int type; };  // 0: tiled
struct OfBufferToHost { Buffer* buffer; Args<Layout>* layout; void* target; size_t target_size; Event* done; };

}  // namespace pjrt
