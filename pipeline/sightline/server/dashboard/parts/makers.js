// Where cameras of common makers have their streams, with the page that each is from. No camera was asked.

/** `{name, paths: [[text, path]], source}`; texts are keys below `cameras`. */
export const MAKERS = [
  {
    name: "Axis",
    paths: [["pathMain", "/axis-media/media.amp"]],
    source: "https://smartcamalerts.com/blog/rtsp-camera-setup.html",
  },
  {
    name: "Dahua, Amcrest",
    paths: [["pathMain", "/cam/realmonitor?channel=1&subtype=0"], ["pathSub", "/cam/realmonitor?channel=1&subtype=1"]],
    source: "https://smartcamalerts.com/blog/rtsp-camera-setup.html",
  },
  {
    name: "Hikvision",
    paths: [["pathMain", "/Streaming/Channels/101"], ["pathSub", "/Streaming/Channels/102"]],
    source: "http://enpinfo.hikvision.com/unzip/20201110210551_77443_doc/GUID-515FF2B5-5E01-4F03-8B81-4CA5BD621965.html",
  },
  {
    name: "Reolink",
    paths: [["pathMain", "/Preview_01_main"], ["pathSub", "/Preview_01_sub"], ["pathMainOld", "/h264Preview_01_main"]],
    source: "https://support.reolink.com/hc/en-us/articles/900000630706-Introduction-to-RTSP/",
  },
  {
    name: "TP-Link Tapo",
    paths: [["pathMain", "/stream1"], ["pathSub", "/stream2"]],
    source: "https://actutana.com/video-streaming-what-is-rtsp-streaming/",
  },
];

/** User and password as they stand in an address; empty without a user. They may hold any characters. */
export function loginOf({ user, password }) {
  return user ? `${encodeURIComponent(user)}${password ? `:${encodeURIComponent(password)}` : ""}@` : "";
}

/** The address of a camera from its parts. */
export function addressOf({ host, port, user, password, path }) {
  const place = host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
  return `rtsp://${loginOf({ user, password })}${place}${port ? `:${port}` : ""}${path && !path.startsWith("/") ? "/" : ""}${path}`;
}
