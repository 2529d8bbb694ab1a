// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Changes of files that processes have open: overwrite, truncate, rename.
///
/// ```swift
/// let file = store.path + "/v1/g-1/data.mdb"
/// try TestFiles.overwrite([0xFF], at: TestFiles.size(file) / 2, in: file)
/// ```
public enum TestFiles {
  /// Returns whether a file exists, including a dangling link.
  public static func exists(_ path: String) -> Bool {
    var information = stat()
    return unsafe lstat(path, &information) == 0
  }

  /// Returns the size in bytes.
  public static func size(_ path: String) throws(SystemCallError) -> Int {
    Int(try information(path).st_size)
  }

  /// Sets the permission bits.
  package static func mode(_ path: String) throws(SystemCallError) -> Int {
    Int(try information(path).st_mode) & 0o7777
  }

  package static func setMode(_ mode: Int, of path: String) throws(SystemCallError) {
    if unsafe chmod(path, mode_t(mode)) != 0 { throw POSIX.failure("chmod") }
  }

  /// Returns where a symbolic link leads, or `nil` if there is none.
  package static func target(ofLink path: String) -> String? {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = unsafe bytes.withUnsafeMutableBytes {
      unsafe readlink(path, $0.baseAddress!, $0.count)
    }
    return count < 0 ? nil : String(decoding: bytes.prefix(count), as: UTF8.self)
  }

  /// Returns the contents of a file.
  public static func contents(of path: String) throws(SystemCallError) -> [UInt8] {
    let descriptor = try POSIX.open(path, O_RDONLY)
    defer { close(descriptor) }
    return try POSIX.contents(descriptor)
  }

  /// Replaces the contents of a file in place, or creates the file with mode 0600.
  public static func write(_ bytes: [UInt8], to path: String) throws(SystemCallError) {
    let descriptor = try POSIX.open(path, O_WRONLY | O_CREAT | O_TRUNC)
    defer { close(descriptor) }
    try write(bytes, to: descriptor)
  }

  /// Overwrites some bytes of an existing file.
  public static func overwrite(
    _ bytes: [UInt8], at offset: Int, in path: String
  ) throws(SystemCallError) {
    let descriptor = try POSIX.open(path, O_WRONLY)
    defer { close(descriptor) }
    if lseek(descriptor, off_t(offset), SEEK_SET) < 0 { throw POSIX.failure("lseek") }
    try write(bytes, to: descriptor)
  }

  /// Truncates a file, or extends it with zeros.
  public static func truncate(_ path: String, to size: Int) throws(SystemCallError) {
    let descriptor = try POSIX.open(path, O_WRONLY)
    defer { close(descriptor) }
    if ftruncate(descriptor, off_t(size)) != 0 { throw POSIX.failure("ftruncate") }
  }

  package static func makeDirectory(_ path: String) throws(SystemCallError) {
    if unsafe mkdir(path, 0o700) != 0 { throw POSIX.failure("mkdir") }
  }

  package static func makeSymbolicLink(
    _ path: String, to target: String
  ) throws(SystemCallError) {
    if unsafe symlink(target, path) != 0 { throw POSIX.failure("symlink") }
  }

  /// Renames a file and replaces the target.
  package static func move(_ path: String, to target: String) throws(SystemCallError) {
    if unsafe rename(path, target) != 0 { throw POSIX.failure("rename") }
  }

  /// Returns the sorted names in a directory without `.` and `..`, or none if it cannot be read.
  public static func names(in path: String) -> [String] {
    guard let directory = unsafe opendir(path) else { return [] }
    defer { unsafe closedir(directory) }
    var names: [String] = []
    while let entry = unsafe readdir(directory) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        unsafe String(cString: UnsafeRawPointer(pointer).assumingMemoryBound(to: CChar.self))
      }
      if name != "." && name != ".." { names.append(name) }
    }
    return names.sorted()
  }

  /// Removes a file or a tree without following links. Errors are ignored.
  public static func removeAll(_ path: String) { remove(Array(path.utf8CString)) }

  /// - Parameter path: With its terminator. The name of a file need not be text.
  private static func remove(_ path: [CChar]) {
    if unsafe unlink(path) == 0 || errno == ENOENT { return }
    // A test may have removed the permissions, without which no entry can be deleted.
    _ = unsafe chmod(path, 0o700)
    let dot = CChar(UInt8(ascii: "."))
    for name in rawNames(in: path) where name != [dot] && name != [dot, dot] {
      remove(path.dropLast() + [CChar(UInt8(ascii: "/"))] + name + [0])
    }
    _ = unsafe rmdir(path)
  }

  private static func rawNames(in path: [CChar]) -> [[CChar]] {
    guard let directory = unsafe opendir(path) else { return [] }
    defer { unsafe closedir(directory) }
    var names: [[CChar]] = []
    while let entry = unsafe readdir(directory) {
      unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        let name = unsafe UnsafeRawPointer(pointer).assumingMemoryBound(to: CChar.self)
        unsafe names.append(Array(UnsafeBufferPointer(start: name, count: strlen(name))))
      }
    }
    return names
  }

  private static func information(_ path: String) throws(SystemCallError) -> stat {
    var information = stat()
    if unsafe lstat(path, &information) != 0 { throw POSIX.failure("lstat") }
    return information
  }

  private static func write(_ bytes: [UInt8], to descriptor: Int32) throws(SystemCallError) {
    var rest = bytes[...]
    while !rest.isEmpty { rest.removeFirst(try POSIX.write(rest, to: descriptor)) }
  }
}
