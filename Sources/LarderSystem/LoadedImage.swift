// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Darwin)
internal import Darwin
#endif

/// A place in the file of a loaded program or library, the same in every process that runs the file.
package struct ImagePlace: Sendable, Hashable {
  /// A hash of what identifies the file and its content: another build is another image.
  package let image: UInt64
  /// The distance from the beginning of the image.
  package let offset: UInt64

  /// Finds the place of an address, or `nil` if it is in no file that is known.
  package init?(ofAddress address: UInt) {
    guard let found = Self.mapping(of: UInt64(address)),
      let file = try? FileSystem.status(of: found.path)
    else { return nil }
    var identity: [UInt8] = []
    identity.append(littleEndian: file.device)
    identity.append(littleEndian: file.inode)
    identity.append(littleEndian: UInt64(clamping: file.size))
    identity.append(littleEndian: file.changed)
    image = XXH64.hash(identity)
    offset = found.offset
  }

  #if canImport(Darwin)
  private static func mapping(of address: UInt64) -> (path: [UInt8], offset: UInt64)? {
    var info = Dl_info()
    guard unsafe dladdr(UnsafeRawPointer(bitPattern: UInt(address)), &info) != 0,
      let base = unsafe info.dli_fbase, let name = unsafe info.dli_fname
    else { return nil }
    let path = unsafe UnsafeBufferPointer(start: name, count: strlen(name)).map {
      UInt8(bitPattern: $0)
    }
    return (path, address &- UInt64(unsafe UInt(bitPattern: base)))
  }
  #else
  private static func mapping(of address: UInt64) -> (path: [UInt8], offset: UInt64)? {
    MemoryMap.all(of: "self")?.first { $0.addresses.contains(address) }
      .map { ($0.path, address - $0.addresses.lowerBound + $0.offset) }
  }
  #endif
}
