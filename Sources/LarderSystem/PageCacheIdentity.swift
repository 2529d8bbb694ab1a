// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

// IS THE PAGE CACHE STILL THE ONE THAT WAS WRITTEN TO?
//
// What processes write without a sync is in the page cache of the file system, and outlives every process. It does
// not outlive the super block, which is the file system's state in the kernel: if the file system is unmounted (after
// an error of the device, with a detached volume) and mounted again, the files are what the disk has, on the same
// boot. A copy or a snapshot of the files, or of the device below them, has another page cache. So a boot id
// proves nothing. Two words are recorded with the file that was written to; each is a proof if it is the same later:
//
//   mount        the unique id of the mount through which it is open (STATX_MNT_ID_UNIQUE, Linux 6.8). No later mount
//                gets the id, and as long as the mount exists, its super block does. Mounts are more than super
//                blocks: a bind mount, a mount namespace and a restarted container have other ids for the same one.
//   file system  the super block itself. ext4, xfs and f2fs: the inode number of its directory in sysfs, which is
//                made when it is mounted and has a number that no later one gets (64-bit systems, from Linux 5.5);
//                tmpfs: the id that it draws when it is mounted. Other file systems have none.
//
// Both are hashes, with the boot, the device, the inode of the file, and the id that statfs has for its file system,
// which on btrfs contains the subvolume (its device number can be given again): so no copy of the file, no snapshot of
// a subvolume, and no file that replaced it has a proof. Without a boot id there is none. Neither word shows that no
// page was lost: a kernel can drop pages whose write the device refused, and keep the super block. Without a word that is the same there is no proof: on a file
// system without the second word after a change of the mount, before Linux 6.8 on such a file system always. The ids
// of `/proc/self/mountinfo` are no substitute, because a new mount gets the number of one that has ended.

/// The identity of the page cache that a file is written to.
package struct PageCacheIdentity: Sendable, Hashable {
  /// The proof by the mount, or zero for none.
  package var mount: UInt64
  /// The proof by the super block, or zero for none.
  package var fileSystem: UInt64

  package init(mount: UInt64, fileSystem: UInt64) {
    self.mount = mount
    self.fileSystem = fileSystem
  }

  /// An identity without a proof: no page cache has it.
  package static let none = PageCacheIdentity(mount: 0, fileSystem: 0)

  /// The identity of the page cache of an open file.
  package init(ofDescriptor descriptor: CInt) {
    guard let file = FileSystem.status(ofDescriptor: descriptor) else {
      self = .none
      return
    }
    mount = Self.mount(of: file, descriptor)
    fileSystem = Self.fileSystem(of: file, descriptor)
  }

  /// Whether this identity, which was recorded, is that of the page cache of an open file. The second proof is looked
  /// for only if the first is missing.
  package func isProven(forDescriptor descriptor: CInt) -> Bool {
    guard self != .none, let file = FileSystem.status(ofDescriptor: descriptor) else {
      return false
    }
    if mount != 0, mount == Self.mount(of: file, descriptor) { return true }
    return fileSystem != 0 && fileSystem == Self.fileSystem(of: file, descriptor)
  }

  private static func mount(of file: FileStatus, _ descriptor: CInt) -> UInt64 {
    let id = larder_mount_id(descriptor)
    var system: UInt64 = 0
    _ = unsafe larder_open_file_system(descriptor, &system)
    return id == 0 ? 0 : proof(1, id, file, system)
  }

  private static func fileSystem(of file: FileStatus, _ descriptor: CInt) -> UInt64 {
    #if os(Linux)
    var id: UInt64 = 0
    let type = unsafe larder_open_file_system(descriptor, &id)
    if type == 0x0102_1994 { return id == 0 ? 0 : proof(2, id, file) }  // tmpfs
    guard Int.bitWidth == 64, ProcessIdentity.kernelVersion >= (5, 5), let name = sysfsNames[type],
      let inode = superBlockInode(name, device: file.device)
    else { return 0 }
    return proof(3, inode, file)
    #else
    return 0
    #endif
  }

  #if os(Linux)
  /// The directories of sysfs with a directory for each mounted device, by the magic number of the file system.
  private static let sysfsNames: [Int64: String] = [
    0xEF53: "ext4", 0x5846_5342: "xfs", 0xF2F5_2010: "f2fs",
  ]

  private static func superBlockInode(_ name: String, device: UInt64) -> UInt64? {
    let major = (device >> 8 & 0xFFF) | (device >> 32 & ~0xFFF)
    let minor = (device & 0xFF) | (device >> 12 & 0xFFFF_FF00)
    guard let link = FileSystem.resolved("/sys/dev/block/\(major):\(minor)"),
      let slash = link.lastIndex(of: "/")
    else { return nil }
    let path = "/sys/fs/\(name)/\(link[link.index(after: slash)...])"
    // A container may have something else there.
    guard unsafe larder_file_system_type(path) == 0x6265_6572 else { return nil }
    return (try? FileSystem.status(of: path))??.inode
  }
  #endif

  private static func proof(
    _ kind: UInt64, _ id: UInt64, _ file: FileStatus, _ system: UInt64 = 0
  ) -> UInt64 {
    guard ProcessIdentity.hasBootID else { return 0 }
    var bytes: [UInt8] = []
    for word in [kind, ProcessIdentity.bootID, file.device, file.inode, id, system] {
      bytes.append(littleEndian: word)
    }
    return max(XXH64.hash(bytes), 1)
  }
}
