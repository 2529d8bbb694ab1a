// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

/// No store: it writes each value over an older one in a preallocated file and syncs it, once. What a durable store
/// takes beyond that is its work; no store that syncs each commit takes less.
final class DiskContender: BenchmarkSubject {
  let name = "one write and one sync"
  private let data: Dataset
  private let file: FileHandle
  private var offset: UInt64 = 0
  private static let size: UInt64 = 4 << 20

  init(in directory: String, _ data: Dataset, loads: Bool) throws {
    self.data = data
    let path = directory + "/disk"
    if loads { try Data(count: Int(Self.size)).write(to: URL(fileURLWithPath: path)) }
    guard let file = FileHandle(forUpdatingAtPath: path) else {
      throw BenchFailure("\(path) cannot be opened.")
    }
    self.file = file
    try file.synchronize()
  }

  func get(_ keys: [UInt32], _ times: inout [UInt32]) throws -> UInt64 { 0 }

  func set(_ keys: [UInt32], shift: Int, _ times: inout [UInt32]) throws {
    for key in keys {
      let value = data.values[(Int(key) + shift) % data.count]
      if offset + UInt64(value.count) > Self.size { offset = 0 }
      try recordingTimings(&times) {
        let written = value.withUnsafeBytes {
          pwrite(file.fileDescriptor, $0.baseAddress, $0.count, off_t(offset))
        }
        guard written == value.count, synchronize() == 0 else {
          throw BenchFailure("The write or its sync failed: \(String(cString: strerror(errno)))")
        }
      }
      offset += UInt64(value.count)
    }
  }

  private func synchronize() -> CInt {
    #if canImport(Darwin)
    fcntl(file.fileDescriptor, F_FULLFSYNC)
    #else
    fdatasync(file.fileDescriptor)
    #endif
  }

  func value(_ key: Int) throws -> [UInt8] { [] }
}
