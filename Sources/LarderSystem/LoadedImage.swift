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
  /// Each line of the list is "start-end mode offset device inode path".
  private static func mapping(of address: UInt64) -> (path: [UInt8], offset: UInt64)? {
    for line in lines(of: "/proc/self/maps") {
      let parts = line.split(separator: UInt8(ascii: " "), maxSplits: 5)
      guard parts.count == 6 else { continue }
      let ends = parts[0].split(separator: UInt8(ascii: "-")).map(number)
      guard ends.count == 2, let start = ends[0], let end = ends[1], start <= address,
        address < end, let offset = number(parts[2])
      else { continue }
      let path = parts[5].drop { $0 == UInt8(ascii: " ") }
      guard path.first == UInt8(ascii: "/") else { return nil }
      return (Array(path), address - start + offset)
    }
    return nil
  }

  private static func lines(of path: String) -> [ArraySlice<UInt8>] {
    var content: [UInt8] = []
    guard let file = try? OwnedFile(path: path, writable: false) else { return [] }
    // The file has no size, and a read returns a part of it.
    while let part = try? file.read(count: 1 << 16, at: content.count), !part.isEmpty {
      content += part
    }
    return content.split(separator: UInt8(ascii: "\n"))
  }

  private static func number(_ digits: ArraySlice<UInt8>) -> UInt64? {
    UInt64(String(decoding: digits, as: UTF8.self), radix: 16)
  }
  #endif
}
